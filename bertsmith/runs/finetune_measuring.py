"""A fine-tuning run and a machine -> what it will cost: time, real tokens a second, memory.

A throw-away copy of the model takes a few of the run's own steps, and reads a few of the Dev
examples; the run itself does not notice. It decides nothing.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

from bertsmith.batch import TaskBatch
from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.packing import Packing
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetuning import task_trainee
from bertsmith.runs.measuring import peak_bytes
from bertsmith.runs.progress import duration
from bertsmith.tasks.scores import KeptStates, item_scores
from bertsmith.train.loop import train

_WARM_GROUPS = 2  # of a first step, which makes kernels and says nothing about the others
_MOST_STEPS = 4
_MEASURED_SECONDS = 3.0  # after so many no further step is begun
_TOKENS_READ = 4_096


@dataclass(frozen=True, kw_only=True)
class FinetuneCost:
    """What the tokens of a run cost on this machine."""

    tokens_per_second: float
    """Real tokens that are learned from."""
    tokens_read_per_second: float
    """Real tokens of Dev examples."""
    peak_bytes: int
    """Memory of this process (a CPU) or of the device at its peak."""
    seconds_before: float = 0.0
    """What precedes the first step: making the hidden states that a head alone learns from."""

    def seconds(self, plan: TaskPlan, run: FinetuneRun, dev: LabelledItems, start: int) -> float:
        """What is left of the run after `start` updates takes, its evaluations included."""
        steps = plan.num_steps(run.epochs) - start
        epochs = plan.epochs(steps)
        learned = epochs * plan.labelled.num_tokens
        read = (min(steps, epochs // run.evaluate_every) + 1) * dev.num_tokens
        trained = learned / self.tokens_per_second + read / self.tokens_read_per_second
        return self.seconds_before + trained

    def told(self, seconds: float) -> str:
        """The cost in words."""
        return (
            f"{duration(seconds)} at {self.tokens_per_second:,.0f} tokens/s (measured), "
            f"{self.peak_bytes / 2**30:.1f} GiB of memory"
        )


def measure_finetuning(
    run: FinetuneRun,
    model: TaskModel,
    plan: TaskPlan,
    dev: LabelledItems,
    device: torch.device,
    features: FrozenFeatures | None = None,
) -> FinetuneCost:
    """Takes a small step, then up to four whole ones in about three seconds, at least one.

    Their median counts: a busy moment is not the machine.
    Kernels are those that the caller's `unfused` leaves on. Memory is that of the process so far: a
    step with longer sequences than these needs more, a run of long standing has used more. Of
    `features` as many are learned from as will be there, all of them zero.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    blank = (None, None) if features is None else (features.train.blank(), features.dev.blank())
    copied, num_steps = copy.deepcopy(model), plan.num_steps(run.epochs)
    parts = task_trainee(run, copied, num_steps, device, blank[0])
    rates, first = [], 0.0
    began = time.perf_counter()
    for update in train(
        parts.learner,
        parts.optimizer,
        parts.schedule,
        _batches(plan, run),
        accumulation=run.accumulation,
    ):
        _ = update.loss  # fetched, so that the device has finished
        now = time.perf_counter()
        if update.number > 1:
            rates.append(update.tokens / (now - began))
        first, began = first or now, now
        if rates and now - first > _MEASURED_SECONDS:
            break
    few = _first_of(dev)
    seconds_before = 0.0
    if features is not None and (missing := features.num_tokens_to_read()):
        seconds_before = missing / few.num_tokens * _seconds_to_read(parts.model, few)
    return FinetuneCost(
        tokens_per_second=float(np.median(rates)),
        tokens_read_per_second=few.num_tokens / _seconds_to_read(parts.model, few, blank[1]),
        peak_bytes=peak_bytes(device),
        seconds_before=seconds_before,
    )


def _seconds_to_read(
    model: TaskModel, few: LabelledItems, states: KeptStates | None = None
) -> float:
    packing, began = Packing.of(model.bert), time.perf_counter()
    item_scores(model.bert, model.head, few, packing, lambda share: None, states)
    return time.perf_counter() - began


def _batches(plan: TaskPlan, run: FinetuneRun) -> Iterator[TaskBatch]:
    """A step of a few groups, then the run's own first ones."""
    fewest = min(plan.batch_size, max(_WARM_GROUPS, run.accumulation))
    yield replace(plan, batch_size=fewest).step(0)
    yield from map(plan.step, range(_MOST_STEPS))


def _first_of(labelled: LabelledItems) -> LabelledItems:
    """The first items, up to some thousand tokens, without what is right of them."""
    ends = np.cumsum([len(item.token_ids) for item in labelled.items])
    count = max(1, int(np.searchsorted(ends, _TOKENS_READ, side="right")))
    return LabelledItems(
        items=labelled.items[:count],
        groups=labelled.groups[:count],
        rows=None if labelled.rows is None else labelled.rows[:count],
        targets=[],
        by_row=labelled.by_row,
    )
