"""One point of an axis -> seconds and memory of a model at that point, in this process.

Training is a pre-training step as `bertsmith pretrain` takes it; inference is what lies between the
tokenizer and the answer: items packed, read, and a vector of each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from benchmarks.batches import synthetic
from benchmarks.machine import peak_bytes, wait_for
from benchmarks.scaling.axes import ModelPoint, Point
from benchmarks.systems import Setup, ours
from bertsmith.batch import PackedBatch
from bertsmith.data.items import Item
from bertsmith.model.init import initialise
from bertsmith.model.layers import lay_out
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.packing import Packing
from bertsmith.train.device import cast_, choose_device, choose_precision

WARM_UP = 2


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a process is asked: one value's point, measured so many times."""

    value: int
    point: ModelPoint
    rounds: int
    device: str


def measured(question: Question) -> Point:
    """The median of the rounds, every one on another batch."""
    device = choose_device(question.device)
    make = _trainer if question.point.work == "training" else _reader
    ready = make(question.point, device)
    seconds = []
    for number in range(question.rounds + WARM_UP):
        work = ready(number)
        wait_for(device)
        began = time.perf_counter()
        work()
        wait_for(device)
        seconds.append(time.perf_counter() - began)
    return Point(
        value=question.value,
        seconds=statistics.median(seconds[WARM_UP:]),
        peak_bytes=peak_bytes(device),
    )


def _trainer(point: ModelPoint, device: torch.device) -> Callable[[int], Callable[[], object]]:
    """A number -> its step, the batch drawn before it begins."""
    step = ours(Setup(config=point.config, weights=_model(point).state_dict(), device=device))

    def ready(number: int) -> Callable[[], object]:
        batch = synthetic(point.config, point.length, point.batch, number)
        return lambda: step(batch, number)

    return ready


def _reader(point: ModelPoint, device: torch.device) -> Callable[[int], Callable[[], object]]:
    """A number -> the reading of its texts."""
    model = _model(point).eval()
    model.to(device)
    cast_(model, choose_precision("auto", device))
    lay_out(model)
    bert = model.bert
    packing = Packing.of(bert)

    def vectors(numbers: list[int], packed: PackedBatch) -> list[Tensor]:
        stream = Stream.of(packed, device=device)
        return list(bert(stream, bert.pooled_rows(stream)).float().cpu())

    def ready(number: int) -> Callable[[], object]:
        batch = synthetic(point.config, point.length, point.batch, number).packed
        segments = np.zeros(point.length, dtype=np.int32)
        items = [
            Item(token_ids=ids, segment_ids=segments, num_unread=0)
            for ids in np.split(batch.token_ids, point.batch)
        ]
        return lambda: packing.in_order(items, vectors, lambda share: None)

    return ready


def _model(point: ModelPoint) -> PretrainModel:
    model = PretrainModel(point.config, ("masked_lm", "next_sentence"))
    initialise(model, std=point.config.initializer_range, seed=0)
    return model
