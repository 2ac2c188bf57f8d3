"""A number of labelled items that need no text and no tokenizer: drawn tokens, of texts' lengths.

Speed needs no meaning. So a machine without any data can be measured.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from benchmarks.inference.texts import mixed_lengths
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.randomness import integers

NAME = "drawn"
"""In place of a task's name."""
HEAD = TaskHeadConfig(
    kind="sequence_classification",
    labels=("0", "1"),
    problem_type="single_label_classification",
)
LONGEST = 128
"""What the example scripts of `transformers` cut and pad to."""
_TOKENS, _TARGETS = 1, 2


def drawn_items(num_items: int, vocab_size: int) -> LabelledItems:
    """Texts of 6 to 128 tokens, 40 in the mean, each of one of two labels."""
    lengths = [min(length, LONGEST) for length in mixed_lengths(num_items, 0)]
    edges = np.cumsum([0, *lengths]).tolist()
    tokens = integers(vocab_size, _TOKENS, np.arange(edges[-1])).astype(np.int32)
    items = [
        Item(
            token_ids=tokens[start:end],
            segment_ids=np.zeros(end - start, dtype=np.int32),
            num_unread=0,
        )
        for start, end in pairwise(edges)
    ]
    labels = integers(2, _TARGETS, np.arange(num_items))
    return LabelledItems(
        items=items,
        groups=np.arange(num_items),
        rows=None,
        targets=list(labels[:, None]),
    )
