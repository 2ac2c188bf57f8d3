"""Encoded examples and a fine-tuned model -> the scores of each item, in the items' order.

The one path from a task's items to its logits, in evaluation and prediction alike. It does not know
what the scores become.

Legend: T tokens, N sequences, R rows scored in an item, C labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.bert import Bert
from bertsmith.model.elementwise import widened
from bertsmith.model.heads import TaskHead
from bertsmith.model.stream import Stream, tensors
from bertsmith.packing import Packing, Watch

FloatArray = npt.NDArray[np.floating]
Scoring = Callable[[LabelledItems, Watch], list[FloatArray]]
"""What a task head says of each item, as `item_scores` gives it."""


class KeptStates(Protocol):
    """What a frozen encoder gave for each item, at hand."""

    def read(self, numbers: IntArray, device: torch.device) -> tuple[Tensor, ...]:
        """Of each layer that a head reads, the rows of these items, end to end."""


def item_scores(
    bert: Bert,
    head: TaskHead,
    labelled: LabelledItems,
    packing: Packing,
    watch: Watch,
    states: KeptStates | None = None,
) -> list[FloatArray]:
    """(C,) scores of each item, or (R, C) of its scored rows, or (n, C) of all its n tokens.

    With `states` the encoder reads nothing.
    """

    def scores(numbers: list[int], stream: Stream, rows: Tensor | None = None) -> FloatArray:
        if states is None:
            return _numbers(head.logits(bert, stream, rows))
        kept = states.read(np.array(numbers), packing.device)
        return _numbers(head.of_kept(bert, kept, stream, rows))

    def answer(numbers: list[int], packed: PackedBatch) -> list[FloatArray]:
        stream = Stream.of(packed, device=packing.device)
        if not head.config.reads_tokens:
            return list(scores(numbers, stream))
        if labelled.rows is None:
            return _parted(scores(numbers, stream), packed.lengths)
        of_items = [labelled.rows[number] for number in numbers]
        counts = np.array([len(each) for each in of_items])
        rows = np.repeat(packed.starts, counts) + np.concatenate(of_items)
        (there,) = tensors((rows,), packing.device)
        return _parted(scores(numbers, stream, there), counts)

    return packing.in_order(labelled.items, answer, watch)


def _numbers(logits: torch.Tensor) -> FloatArray:
    numbers: FloatArray = widened(logits).cpu().numpy()
    return numbers


def _parted(scores: FloatArray, counts: npt.NDArray[np.integer]) -> list[FloatArray]:
    return np.split(scores, np.cumsum(counts)[:-1])
