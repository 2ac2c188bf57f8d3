"""Encoded examples and a fine-tuned model -> the scores of each item, in the items' order.

The one path from a task's items to its logits, in evaluation and prediction alike. It does not know
what the scores become.

Legend: T tokens, N sequences, R rows scored in an item, C labels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
from bertsmith.packing import Arriving, Packing, Watch

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

    def scores(numbers: list[int], stream: Stream, rows: Tensor | None = None) -> Tensor:
        if states is None:
            return widened(head.logits(bert, stream, rows))
        kept = states.read(np.array(numbers), packing.device)
        return widened(head.of_kept(bert, kept, stream, rows))

    def answer(numbers: list[int], packed: PackedBatch) -> Arriving[FloatArray]:
        stream = Stream.of(packed, device=packing.device)
        if not head.config.reads_tokens:
            return Arriving(scores(numbers, stream), lambda found: list(_numbers(found)))
        if labelled.rows is None:
            return Arriving(scores(numbers, stream), partial(_parted, packed.lengths))
        of_items = [labelled.rows[number] for number in numbers]
        counts = np.array([len(each) for each in of_items])
        rows = np.repeat(packed.starts, counts) + np.concatenate(of_items)
        (there,) = tensors((rows,), packing.device)
        return Arriving(scores(numbers, stream, there), partial(_parted, counts))

    return packing.in_order(labelled.items, answer, watch)


def _numbers(scores: Tensor) -> FloatArray:
    numbers: FloatArray = scores.numpy().copy()
    return numbers


def _parted(counts: npt.NDArray[np.integer], scores: Tensor) -> list[FloatArray]:
    return np.split(_numbers(scores), np.cumsum(counts)[:-1])
