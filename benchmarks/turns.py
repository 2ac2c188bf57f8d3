"""A system takes turns of pre-training steps in its process; what it took -> figures of a row.

It does not know which systems are compared, nor in what order they are asked.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.batches import Shape, batches_of, training_flops
from benchmarks.machine import peak_bytes, wait_for
from benchmarks.systems import SYSTEMS, Setup
from bertsmith.model.config import BertConfig
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.train.device import choose_device

WARM_UP = 2
"""Turns that are not timed: compilation, first pages."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a system's process begins with."""

    system: str
    config: BertConfig
    shape: Shape
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Asks a system for some steps, one after the other."""

    first: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a system says of its turn."""

    seconds: float
    loss: float
    """Of the last step."""
    peak_bytes: int
    """The most that its process ever held."""
    lengths: tuple[int, ...]
    """Of all sequences."""


def stepper(trial: Trial) -> Callable[[Turn], Taken]:
    """Makes the system in its process; what it gives takes the steps of a turn."""
    config, device = trial.config, choose_device(str(trial.device))
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=config.initializer_range, seed=0)
    length = trial.shape.length if trial.shape.corpus else None
    setup = Setup(config=config, weights=model.state_dict(), device=device, padded_length=length)
    step = SYSTEMS[trial.system](setup)
    del model, setup
    draw = batches_of(config, trial.shape)

    def take(turn: Turn) -> Taken:
        numbers = range(turn.first, turn.first + turn.count)
        batches = [draw(number) for number in numbers]
        wait_for(device)
        began = time.perf_counter()
        for number, batch in zip(numbers, batches, strict=True):
            loss = step(batch, number)
        wait_for(device)
        return Taken(
            seconds=time.perf_counter() - began,
            loss=float(loss),
            peak_bytes=peak_bytes(device),
            lengths=tuple(length for batch in batches for length in batch.packed.lengths.tolist()),
        )

    return take


def figures(
    taken: Mapping[str, Sequence[Taken]], config: BertConfig, ceiling: float
) -> dict[str, object]:
    """The figures of every system; `ceiling` is the matrix rate."""
    timed = {name: turns[WARM_UP:] for name, turns in taken.items()}
    lengths = [length for turns in timed.values() for turn in turns for length in turn.lengths]
    return {
        "mean_tokens": statistics.mean(lengths) if lengths else None,
        "tokens_per_second": {
            name: statistics.median(sum(turn.lengths) / turn.seconds for turn in turns)
            for name, turns in timed.items()
        },
        "fraction_of_matrix_rate": {
            name: statistics.median(
                training_flops(config, turn.lengths) / turn.seconds / ceiling for turn in turns
            )
            for name, turns in timed.items()
        },
        "first_step_seconds": {name: turns[0].seconds for name, turns in taken.items()},
        "peak_bytes": {name: turns[-1].peak_bytes for name, turns in taken.items()},
        "losses": {name: [turn.loss for turn in turns] for name, turns in taken.items()},
    }
