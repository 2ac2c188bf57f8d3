"""The scores of packed items are those of each item read alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskKind
from bertsmith.packing import Packing
from bertsmith.tasks.scores import item_scores
from tests.checkpoints.fine_tuned import HEADS, fine_tuned

LENGTHS = (5, 2, 24, 11, 7, 24)
DRAWS = np.random.default_rng(0)
ITEMS = [
    Item(
        token_ids=DRAWS.integers(5, 20, length).astype(np.int32),
        segment_ids=np.zeros(length, np.int32),
        num_unread=0,
    )
    for length in LENGTHS
]
ROWS = [np.arange(1, length, 2) for length in LENGTHS]
ROWS[1] = np.empty(0, np.int64)


@pytest.mark.parametrize("tokens_per_batch", [1, 30, 1_000])
@pytest.mark.parametrize(
    ("kind", "with_rows"),
    [*((kind, False) for kind in HEADS), ("token_classification", True)],
)
def test_scores_are_those_of_each_item_alone(
    kind: TaskKind, with_rows: bool, tokens_per_batch: int
) -> None:
    model, head = fine_tuned(HEADS[kind])
    labelled = LabelledItems(
        items=ITEMS, groups=np.arange(len(ITEMS)), rows=ROWS if with_rows else None, targets=[]
    )
    packing = Packing.of(model.bert, tokens_per_batch)
    found = item_scores(model.bert, head, labelled, packing, lambda share: None)
    assert len(found) == len(ITEMS)
    for number, scores in enumerate(found):
        alone = LabelledItems(
            items=[ITEMS[number]], groups=np.zeros(1, np.int64), rows=None,
            targets=[np.zeros(1)],
        )  # fmt: skip
        stream = Stream.of(alone.batch(np.zeros(1, np.int64)).packed)
        with torch.no_grad():
            expected = head.logits(model.bert, stream).numpy()
        if not head.config.reads_tokens:
            expected = expected[0]
        elif with_rows:
            expected = expected[ROWS[number]]
        np.testing.assert_allclose(scores, expected, atol=2e-5)
