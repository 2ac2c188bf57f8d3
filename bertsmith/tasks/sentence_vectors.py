"""Texts -> sequences to read -> a vector each, and how alike two of them are.

It does not know how sequences are laid into batches.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3.

Legend: N texts, H hidden size, D width of a sentence vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from bertsmith.data.items import Items, beginnings
from bertsmith.model.bert import Bert
from bertsmith.model.finite import finite
from bertsmith.model.pooling import Dense, finished
from bertsmith.model.pooling import sentence_vectors as pooled
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.stream import Stream
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class SentenceVector:
    """What stands for one text."""

    vector: FloatArray
    """(D,)."""
    num_unread: int
    """Tokens at the text's end that the model did not see, because the text was too long."""


@dataclass(frozen=True, kw_only=True)
class Similar:
    """How alike two texts are to the model."""

    cosine: float
    """Of the angle between their vectors: 1 for equal directions, 0 for unrelated ones."""
    num_unread: int
    """Tokens at the ends of the texts that the model did not see, because they were too long."""


def encode(texts: Sequence[str], tokenizer: Tokenizer, limit: int) -> Items:
    """Texts -> `[CLS] text [SEP]` of at most `limit` tokens each; what is cut off is counted."""
    cls_id, sep_id = tokenizer.cls_id, tokenizer.sep_id
    return beginnings(*tokenizer.ids(list(texts)), limit=limit, cls_id=cls_id, sep_id=sep_id)


def answers(bert: Bert, stream: Stream, config: SentenceConfig, dense: Dense | None) -> Tensor:
    """(N, D) the vectors of the stream's sequences, on its device."""
    if config.pooling in (("cls",), ("lasttoken",)):  # nobody reads the last layer's other rows
        rows = stream.first_rows if config.pooling == ("cls",) else stream.last_rows  # (N,)
        return finished(bert(stream, rows).float(), config, dense)
    return pooled(bert(stream), stream, config, dense)


def keep(room: FloatArray, numbers: Sequence[int], vectors: Tensor) -> list[None]:
    """Writes vectors into the rows that they have in all texts' `room`; nothing of each.

    Raises ValueError where one is no finite number.
    """
    room[numbers] = finite(vectors, "sentence vectors").numpy()
    return [None] * len(numbers)


def similar(first: SentenceVector, second: SentenceVector) -> Similar:
    """Compares two vectors of length 1."""
    return Similar(
        cosine=float(first.vector @ second.vector),
        num_unread=first.num_unread + second.num_unread,
    )
