"""Fine-tuning's examples a second, beside `transformers`: its scripts' default, and its best.

    python -m benchmarks.finetuning.speed --data $BERTSMITH_DATA --task MRPC --size mini --size base
    python -m benchmarks.finetuning.speed --task drawn --size base --device cuda

A step is forward, backward, clipping and optimizer on 32 examples of a task of GLUE, dropout 0.1.
The default is that of the example scripts: every sequence padded to 128 tokens, float32. The best
pads to the batch's longest sequence, groups sequences of like length as `Trainer` does (sorted
within 50 batches), and runs in bf16 where the hardware has it. All systems start from the same
weights, each in a process of its own, and take turns, some steps at a time (A B C A B C ...). Each
has its batches twice, on a GPU three times, and the last time is timed: who makes kernels or graphs
for every length has made them then, as in an epoch after its beginning. Reported: examples a
second, which is the median of turns' real tokens a second divided by the set's mean length, since
batches differ; the ratios; and the losses. A system that fails, or takes longer than --limit for a
turn, is left out and named in the row.

The task `SQuAD` has questions about passages, in windows of at most 384 tokens, to which the
default pads. The task `drawn` needs no data: 2,048 drawn sequences of 6 to 128 tokens, 40 in the
mean.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.finetuning import drawn
from benchmarks.finetuning.sets import glue_examples, squad_examples
from benchmarks.finetuning.speed_systems import BATCH, SYSTEMS, lengths_of
from benchmarks.machine import (
    append_row,
    device_facts,
    matrix_rate,
    require_device,
    versions,
    wait_for,
)
from benchmarks.processes import Worker, take_turns
from bertsmith.checkpoints import store
from bertsmith.data.labelled import LabelledItems
from bertsmith.environment import prepare_environment
from bertsmith.model.bert import Bert
from bertsmith.model.config import SIZES
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.task import TaskHeadConfig
from bertsmith.model.task_model import TaskModel
from bertsmith.train.device import choose_device, choose_precision

VOCABULARY = "mini-en"
"""Whose tokenizer reads the texts; the sizes have its vocabulary."""
DRAWN_ITEMS = 2048
SQUAD, SQUAD_QUESTIONS = "SQuAD", 4_000
BY_DEVICE = {
    "cpu": ("bertsmith", "transformers, scripts' default", "transformers, best"),
    "cuda": ("bertsmith", "transformers, best", "transformers, best, compiled"),
}
"""The systems that are measured where none is named."""
UNTIMED = {"cpu": 1, "cuda": 2}
"""How often all batches are taken before they are timed: a GPU's second time captures graphs."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a system's process needs to begin."""

    system: str
    size: str
    task: str
    data: Path | None
    device: torch.device
    num_batches: int
    """So many are taken one after the other, and again."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Some steps of one system."""

    seconds: float
    tokens: int
    """Of its examples, without padding."""
    losses: list[float]


def main() -> None:
    """Measures every size and task asked for, and appends a row each."""
    options = _options()
    prepare_environment()  # for every system, as `bertsmith` sets it
    for size in options.size or ["mini", "base"]:
        for task in options.task or ["CoLA", "STS-B", "MRPC", "RTE"]:
            row = measure(size, task, options)
            show(row)
            if row["examples_per_second"]:
                append_row("finetuning_speed", row)


def measure(size: str, task: str, options: argparse.Namespace) -> dict[str, Any]:
    """One side-by-side run."""
    device = choose_device(options.device)
    num_batches = options.rounds * options.steps
    trials = [
        Trial(
            system=name,
            size=size,
            task=task,
            data=options.data,
            device=device,
            num_batches=num_batches,
        )
        for name in options.system or BY_DEVICE[device.type]
    ]
    precision = choose_precision("auto", device)
    rates: list[float] = []
    turns, left_out = take_turns(
        {trial.system: Worker.begin(trial.system, stepper, trial) for trial in trials},
        [options.steps] * (UNTIMED[device.type] + 1) * options.rounds,
        before_each=lambda: rates.append(matrix_rate(precision, rounds=3, device=device)),
        limit=options.limit,
    )
    speed = {
        name: statistics.median(turn.tokens / turn.seconds for turn in each[-options.rounds :])
        for name, each in turns.items()
    }
    mean_tokens = float(np.mean(lengths_of(_labelled(trials[0])[0])))
    return {
        "size": size,
        "task": task,
        "batch": BATCH,
        "steps_a_turn": options.steps,
        "rounds": options.rounds,
        **device_facts(device),
        "precision": precision,
        "versions": versions(["transformers"]),
        "matrix_flops_per_second": max(rates),
        "examples_per_second": {name: each / mean_tokens for name, each in speed.items()},
        "mean_tokens": mean_tokens,
        "last_losses": {name: statistics.mean(each[-1].losses) for name, each in turns.items()},
        "left_out": left_out,
    }


def show(row: Mapping[str, Any]) -> None:
    """Prints a row as a table."""
    speed = row["examples_per_second"]
    rate = row["matrix_flops_per_second"] / 1e12
    print(f"\n{row['size']}, {row['task']}, batch {BATCH}, matrix rate {rate:.2f} TFLOP/s")
    for name, each in speed.items():
        print(
            f"{name:31s} {each:8.1f} examples/s {next(iter(speed.values())) / each:6.2f} "
            f"mean loss of the last turn {row['last_losses'][name]:.4f}"
        )
    for name, reason in row["left_out"].items():
        print(f"left out: {name}: {reason}")


def stepper(trial: Trial) -> Callable[[int], Turn]:
    """Makes the system in its process; what it gives takes so many steps."""
    device = choose_device(str(trial.device))
    labelled, head = _labelled(trial)
    model = _model(trial.size, head)
    steps = SYSTEMS[trial.system](model, labelled, device, trial.num_batches)

    def take(count: int) -> Turn:
        began = time.perf_counter()
        taken = list(itertools.islice(steps, count))
        wait_for(device)
        return Turn(
            seconds=time.perf_counter() - began,
            tokens=sum(step.tokens for step in taken),
            losses=torch.stack([step.loss for step in taken]).tolist(),
        )

    return take


def _labelled(trial: Trial) -> tuple[LabelledItems, TaskHeadConfig]:
    if trial.task == drawn.NAME:
        return drawn.drawn_items(DRAWN_ITEMS, SIZES[trial.size].vocab_size), drawn.HEAD
    assert trial.data is not None
    read = squad_examples(SQUAD_QUESTIONS) if trial.task == SQUAD else glue_examples(trial.task)
    examples = read(trial.data)
    encoded = examples.task.encode(examples.train, store.load(VOCABULARY).tokenizer)
    return encoded.labelled, examples.task.head


def _model(size: str, head: TaskHeadConfig) -> TaskModel:
    model = TaskModel(Bert(SIZES[size]), TaskHead(SIZES[size], head))
    if not head.needs_pooler:
        model.bert.pooler = None
    initialise(model, std=SIZES[size].initializer_range, seed=0)
    return model


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="the folder of the labelled sets")
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--task", action="append", help=f"of GLUE, {SQUAD} or {drawn.NAME}")
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", choices=sorted(BY_DEVICE))
    parser.add_argument("--limit", type=float, help="seconds that a system may take for a turn")
    options = parser.parse_args()
    if options.data is None and options.task != [drawn.NAME]:
        parser.error(f"--data: name the folder of the labelled sets, or --task {drawn.NAME}")
    require_device(parser, options.device)
    return options


if __name__ == "__main__":
    main()
