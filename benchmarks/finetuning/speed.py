"""Fine-tuning's examples a second, beside `transformers`: its scripts' default, and its best.

    python -m benchmarks.finetuning.speed --data $BERTSMITH_DATA --task MRPC --size mini --size base

A step is forward, backward, clipping and optimizer on 32 examples of a task of GLUE, dropout 0.1.
The default is that of the example scripts: every sequence padded to 128 tokens, float32. The best
pads to the batch's longest sequence, groups sequences of like length as `Trainer` does (sorted
within 50 batches), and runs in bf16 where the hardware has it. All systems start from the same
weights, each in a process of its own, and take turns, some steps at a time (A B C A B C ...).
Reported: the median of examples a second, the ratios, and the losses.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from benchmarks.finetuning.sets import glue_examples
from benchmarks.machine import append_row, matrix_rate
from bertsmith.checkpoints import store
from bertsmith.cli import ENVIRONMENT
from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.files import keep_freed_memory
from bertsmith.model.bert import Bert
from bertsmith.model.config import SIZES
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.task import TaskHeadConfig
from bertsmith.model.task_model import TaskModel
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import cast_, choose_precision
from bertsmith.train.optimizer import Optimizer

RATE = 5e-5
BATCH = 32
LONGEST = 128
GROUPED_BATCHES = 50
"""Of `Trainer`, `group_by_length`: sorted within so many batches."""
VOCABULARY = "mini-en"
"""Whose tokenizer reads the texts; the sizes have its vocabulary."""

Steps = Iterator[float]
"""Each advance takes one step and gives its loss."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What a system's process needs to begin."""

    system: str
    size: str
    task: str
    data: Path


@dataclass(frozen=True, kw_only=True)
class Turn:
    """Some steps of one system."""

    seconds: float
    losses: list[float]


def ours(model: TaskModel, labelled: LabelledItems) -> Steps:
    """Steps as `bertsmith finetune` takes them."""
    keep_freed_memory()
    cast_(model, choose_precision("auto", torch.device("cpu")))
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig(learning_rate=RATE))
    plan = TaskPlan(labelled=labelled, batch_size=BATCH, seed=0)
    for number in itertools.count():
        losses = model(plan.step(number), (0, number))
        losses.loss.backward()
        optimizer.step(RATE)
        optimizer.zero_grad()
        yield float(losses.loss.detach())


def script_default(model: TaskModel, labelled: LabelledItems) -> Steps:
    """As the example scripts of `transformers` come: all of one length, float32."""
    rng = np.random.default_rng(0)
    orders = (rng.permutation(labelled.num_groups) for _ in itertools.count())
    return _peer_steps(model, labelled, _cut(orders), length=LONGEST, with_bf16=False)


def script_best(model: TaskModel, labelled: LabelledItems) -> Steps:
    """Padded to the batch's longest, grouped by length, bf16 where the hardware has it."""
    with_bf16 = choose_precision("auto", torch.device("cpu")) == "bf16"
    return _peer_steps(model, labelled, _grouped(labelled), length=None, with_bf16=with_bf16)


SYSTEMS: dict[str, Callable[[TaskModel, LabelledItems], Steps]] = {
    "bertsmith": ours,
    "transformers, scripts' default": script_default,
    "transformers, best": script_best,
}


def main() -> None:
    """Measures every size and task asked for, and appends a row each."""
    options = _options()
    for name, value in ENVIRONMENT.items():  # for every system, as `bertsmith` sets it
        os.environ.setdefault(name, value)
    for size in options.size or ["mini", "base"]:
        for task in options.task or ["CoLA", "STS-B", "MRPC", "RTE"]:
            measure(size, task, options)


def measure(size: str, task: str, options: argparse.Namespace) -> None:
    """One side-by-side run."""
    dtype = {"bf16": torch.bfloat16}.get(
        choose_precision("auto", torch.device("cpu")), torch.float32
    )
    pipes = {
        name: _begin(Trial(system=name, size=size, task=task, data=options.data))
        for name in SYSTEMS
    }
    turns: dict[str, list[Turn]] = {name: [] for name in SYSTEMS}
    rates = []
    for _ in range(options.rounds + 1):
        rates.append(matrix_rate(dtype, rounds=3))
        for name, pipe in pipes.items():
            pipe.send(options.steps)
            turns[name].append(pipe.recv())
    for pipe in pipes.values():
        pipe.close()
    speed = {
        name: options.steps * BATCH / statistics.median(turn.seconds for turn in each[1:])
        for name, each in turns.items()
    }
    print(f"\n{size}, {task}, batch {BATCH}, matrix rate {max(rates) / 1e12:.2f} TFLOP/s")
    for name, rate in speed.items():
        losses = [loss for turn in turns[name] for loss in turn.losses]
        print(
            f"{name:31s} {rate:8.1f} examples/s {speed['bertsmith'] / rate:6.2f} "
            f"mean loss of the last turn {statistics.mean(losses[-options.steps :]):.4f}"
        )
    append_row(
        "finetuning_speed",
        {
            "size": size,
            "task": task,
            "batch": BATCH,
            "steps_a_turn": options.steps,
            "rounds": options.rounds,
            "precision": choose_precision("auto", torch.device("cpu")),
            "matrix_flops_per_second": max(rates),
            "examples_per_second": speed,
            "mean_tokens": float(np.mean(_lengths(_labelled(options.data, task)[0]))),
        },
    )


def _begin(trial: Trial) -> Connection:
    """Starts a process that takes steps when told to; it ends with its pipe."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    context.Process(target=_serve, args=(there, trial), daemon=True).start()
    there.close()
    return here


def _serve(pipe: Connection, trial: Trial) -> None:
    labelled, head = _labelled(trial.data, trial.task)
    steps = SYSTEMS[trial.system](_model(trial.size, head), labelled)
    while True:
        try:
            count: int = pipe.recv()
        except EOFError:
            return
        began = time.perf_counter()
        losses = list(itertools.islice(steps, count))
        pipe.send(Turn(seconds=time.perf_counter() - began, losses=losses))


def _labelled(data: Path, task: str) -> tuple[LabelledItems, TaskHeadConfig]:
    examples = glue_examples(task)(data)
    encoded = examples.task.encode(examples.train, store.load(VOCABULARY).tokenizer)
    return encoded.labelled, examples.task.head


def _model(size: str, head: TaskHeadConfig) -> TaskModel:
    model = TaskModel(Bert(SIZES[size]), TaskHead(SIZES[size], head))
    initialise(model, std=SIZES[size].initializer_range, seed=0)
    return model


def _peer(model: TaskModel) -> nn.Module:
    """`transformers`' class with the same weights."""
    import transformers

    from bertsmith.checkpoints.config_json import config_to_json
    from bertsmith.checkpoints.names import to_hugging_face

    content = config_to_json(model.bert.config, ())
    config = transformers.BertConfig(**content, num_labels=model.head.config.num_labels)
    peer = transformers.BertForSequenceClassification(config)
    state = to_hugging_face(
        {name: weight for name, weight in model.state_dict().items() if name.startswith("bert.")}
    )
    _, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    return peer.train()


def _peer_steps(
    model: TaskModel,
    labelled: LabelledItems,
    batches: Iterator[npt.NDArray[np.integer]],
    *,
    length: int | None,
    with_bf16: bool,
) -> Steps:
    peer = _peer(model)
    optimizer = torch.optim.AdamW(peer.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    is_regression = model.head.config.problem_type == "regression"
    for numbers in batches:
        inputs = _padded(labelled, numbers, length)
        labels = torch.from_numpy(np.concatenate([labelled.targets[each] for each in numbers]))
        labels = labels.float() if is_regression else labels.long()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=with_bf16):
            loss = peer(**inputs, labels=labels).loss
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield float(loss.detach())


def _padded(
    labelled: LabelledItems, numbers: npt.NDArray[np.integer], length: int | None
) -> dict[str, Any]:
    items = [labelled.items[number] for number in numbers]
    longest = length or max(len(item.token_ids) for item in items)
    ids, segments, mask = (torch.zeros(len(items), longest, dtype=torch.long) for _ in range(3))
    for row, item in enumerate(items):
        ids[row, : len(item.token_ids)] = torch.from_numpy(item.token_ids.astype(np.int64))
        segments[row, : len(item.token_ids)] = torch.from_numpy(item.segment_ids.astype(np.int64))
        mask[row, : len(item.token_ids)] = 1
    return {"input_ids": ids, "token_type_ids": segments, "attention_mask": mask}


def _grouped(labelled: LabelledItems) -> Iterator[npt.NDArray[np.integer]]:
    """Batches of like lengths, in drawn order."""
    lengths, rng = _lengths(labelled), np.random.default_rng(0)
    while True:
        order = rng.permutation(len(lengths))
        size = GROUPED_BATCHES * BATCH
        parts = [order[start : start + size] for start in range(0, len(order), size)]
        order = np.concatenate([part[np.argsort(-lengths[part], kind="stable")] for part in parts])
        batches = list(_cut(iter([order])))
        yield from (batches[place] for place in rng.permutation(len(batches)))


def _cut(
    orders: Iterator[npt.NDArray[np.integer]],
) -> Iterator[npt.NDArray[np.integer]]:
    for order in orders:
        for start in range(0, len(order) - BATCH + 1, BATCH):
            yield order[start : start + BATCH]


def _lengths(labelled: LabelledItems) -> npt.NDArray[np.integer]:
    return np.array([len(item.token_ids) for item in labelled.items])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="the folder of the labelled sets")
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--task", action="append")
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
