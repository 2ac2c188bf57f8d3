"""A run and a machine -> what its real steps cost: seconds, tokens a second, memory.

A throw-away copy of the model takes a few steps of every phase. It decides nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from bertsmith.corpus.cooccurrence import counting_bytes
from bertsmith.corpus.store import Corpus
from bertsmith.files import peak_memory_bytes
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.training import plan_of, trainee
from bertsmith.train.device import Processes, recorded_precision, told_precision
from bertsmith.train.loop import train

_WARM_STEPS = 2
_MEASURED_STEPS = 4
_MEASURED_SECONDS = 4.0


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """What real steps of a run cost on this machine."""

    seconds_per_step: tuple[float, ...]
    """One number a phase."""
    tokens_per_second: float
    """Real tokens, over all phases and processes."""
    peak_bytes: int
    """Memory of this process (a CPU) or of the device at its peak."""
    is_rough: bool = False
    """Whether there was no time for all steps of all phases."""

    def worth(self) -> str:
        """How far to believe the rate, in words."""
        return "measured in a hurry, a rough rate" if self.is_rough else "measured"


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where a run is measured."""

    corpus: Corpus
    device: torch.device
    processes: Processes

    def describe(self, run: PretrainRun) -> str:
        """The machine in one line."""
        where = str(self.device)
        if self.device.type == "cpu":
            where = f"cpu, {torch.get_num_threads()} threads"
        elif self.device.type == "cuda":
            where = f"{self.processes.world_size} x {torch.cuda.get_device_name(self.device)}"
        precision = recorded_precision(run.precision, self.device)
        return f"{where}; {told_precision(precision, self.device)}"


@dataclass(frozen=True, kw_only=True)
class _Cost:
    """What a step of one phase costs."""

    seconds: float
    tokens: float
    is_rough: bool


def measure(
    run: PretrainRun,
    bench: Bench,
    until: float = math.inf,
    on_step: Callable[[int], None] = lambda _: None,
) -> Measurement:
    """Trains a throw-away copy of the model for a few seconds a phase, after two steps of warm-up.

    At least three steps a phase: minutes for BASE on a laptop. After `until`, a time of
    `time.perf_counter`, no phase is begun: one that was not reached is expected to cost what its
    tokens cost in the one before. Two steps are taken whatever the time, for the first of all makes
    kernels. `on_step` hears how many of `num_steps_to_measure` are behind.

    With several processes, one measures its own share of a step; what crosses between them is not
    in the number.
    """
    if bench.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(bench.device)
    held = peak_bytes(bench.device)
    costs: list[_Cost] = []
    for number in range(len(run.phases)):
        if costs and time.perf_counter() > until:
            costs.append(_expected(run, number, bench, costs[-1]))
        else:
            costs.append(_measured(run, number, bench, until, on_step))
    steps = [phase.steps for phase in run.phases]
    tokens = sum(count * cost.tokens for count, cost in zip(steps, costs, strict=True))
    seconds = sum(count * cost.seconds for count, cost in zip(steps, costs, strict=True))
    return Measurement(
        seconds_per_step=tuple(cost.seconds for cost in costs),
        tokens_per_second=tokens / seconds,
        peak_bytes=max(peak_bytes(bench.device), held + _first_vectors_bytes(run, bench)),
        is_rough=any(cost.is_rough for cost in costs),
    )


def _first_vectors_bytes(run: PretrainRun, bench: Bench) -> int:
    """What counting them will take of this process, before the first step of training."""
    is_counted = run.count_embeddings and bench.device.type == "cpu"
    return counting_bytes(bench.corpus, run.model.hidden_size) if is_counted else 0


def num_steps_to_measure(run: PretrainRun) -> int:
    """The most steps that `measure` takes."""
    return len(run.phases) * (_WARM_STEPS + _MEASURED_STEPS)


def peak_bytes(device: torch.device) -> int:
    """The most memory used so far: of the GPU where one trains, else of this process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    return peak_memory_bytes()


def _measured(
    run: PretrainRun, number: int, bench: Bench, until: float, on_step: Callable[[int], None]
) -> _Cost:
    """Median seconds and mean tokens of a whole step of a phase, from steps taken."""
    plan = plan_of(run, number, bench.corpus)
    parts = trainee(run, bench.device)
    steps = [plan.step(step) for step in range(_WARM_STEPS + _MEASURED_STEPS)]
    own = [step.split(bench.processes.world_size)[bench.processes.rank] for step in steps]
    seconds: list[float] = []
    is_late = False
    began = time.perf_counter()
    updates = train(
        parts.learner, parts.optimizer, parts.schedule, own, accumulation=run.accumulation
    )
    for update in updates:
        _ = update.loss  # fetched, so that the device has finished
        now = time.perf_counter()
        is_late = now > until
        if update.number > (1 if is_late else _WARM_STEPS):
            seconds.append(now - began)
        on_step(number * (_WARM_STEPS + _MEASURED_STEPS) + update.number)
        began = now
        if seconds and (is_late or sum(seconds) > _MEASURED_SECONDS):
            break
    is_whole = len(seconds) == _MEASURED_STEPS or sum(seconds) > _MEASURED_SECONDS
    return _Cost(
        seconds=_median(seconds),
        tokens=sum(step.num_tokens for step in steps) / len(steps),
        is_rough=is_late and not is_whole,
    )


def _expected(run: PretrainRun, number: int, bench: Bench, known: _Cost) -> _Cost:
    """What a step of a phase costs at the rate of another."""
    length = plan_of(run, number, bench.corpus).describe().tokens_per_sequence
    tokens = run.phases[number].batch_size * length
    return _Cost(seconds=tokens * known.seconds / known.tokens, tokens=tokens, is_rough=True)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
