"""Batches and a learner -> weights, one yielded `Step` an update.

A generator: it saves nothing, prints nothing and stops when the caller stops asking, so whatever
happens between two updates is plain code in the caller. A step's batch is cut into micro-batches,
over time (accumulation) and over processes; losses are sums divided by the whole step's counts, so
gradients add up and nothing is averaged again. It knows neither the model nor what a batch holds.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, Self

from torch import Tensor, nn

from bertsmith.train.accumulation import Accumulator
from bertsmith.train.device import ALONE, Processes
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig


class Batch(Protocol):
    """One step, or one micro-batch of it."""

    @property
    def num_tokens(self) -> int:
        """Real tokens, for the rate."""

    def split(self, parts: int) -> list[Self]:
        """Micro-batches that know the whole step's divisors."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """One finished update. Its numbers are fetched from the device when first looked at."""

    number: int
    """Finished updates, this one included."""
    learning_rate: float
    tokens: int
    """Real tokens of the whole step, over all processes."""
    seconds: float
    """From asking for the batch to the end of the update; on a GPU, to its last launch."""
    skipped: bool
    """True when float16 gradients overflowed and the weights stayed as they were."""
    names: tuple[str, ...]
    measured: Tensor
    """(2 + sums,) loss, gradient norm, then the sums in the order of `names`, on the device."""

    @cached_property
    def loss(self) -> float:
        """The whole step's loss, over all micro-batches and processes."""
        return self._numbers[0]

    @cached_property
    def grad_norm(self) -> float:
        """Global norm of the gradient before clipping."""
        return self._numbers[1]

    @cached_property
    def sums(self) -> dict[str, float]:
        """The learner's sums over the whole step."""
        return dict(zip(self.names, self._numbers[2:], strict=True))

    @cached_property
    def _numbers(self) -> list[float]:
        numbers: list[float] = self.measured.tolist()
        return numbers


def train(
    learner: nn.Module,
    optimizer: Optimizer,
    schedule: ScheduleConfig,
    batches: Iterable[Batch],
    *,
    accumulation: int = 1,
    start: int = 0,
    processes: Processes = ALONE,
) -> Iterator[Step]:
    """Trains on one batch after the other and yields a `Step` after each update.

    `learner(micro_batch, step)` returns `Losses`; `step` counts finished updates and keys the
    dropout. `batches` gives every process the whole steps `start`, `start + 1`, ...; each process
    takes every `world_size`-th of `accumulation * world_size` micro-batches. Gradients of
    half-precision weights are summed in float32. With several processes the learner runs in
    DistributedDataParallel, must start from equal weights everywhere, and gradients cross once a
    step. At a `Step`, weights and moments are those after `number` updates: the moment to save.
    """
    if accumulation < 1:
        raise ValueError(f"accumulation must be at least 1, found {accumulation}")
    accumulator = Accumulator(learner, optimizer, processes)
    began = time.perf_counter()
    for finished, batch in enumerate(batches, start):
        rate = optimizer.config.learning_rate * schedule.rate(finished)
        parts = batch.split(accumulation * processes.world_size)
        losses = accumulator.backward(parts[processes.rank :: processes.world_size], finished)
        norm = optimizer.step(rate)
        optimizer.zero_grad()
        yield Step(
            number=finished + 1,
            learning_rate=rate,
            tokens=batch.num_tokens,
            seconds=time.perf_counter() - began,
            skipped=optimizer.skipped,
            names=tuple(losses.sums),
            measured=accumulator.measured(losses, norm),
        )
        began = time.perf_counter()
