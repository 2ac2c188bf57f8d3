"""A fine-tuning run before it starts -> the printed plan, line by line. It decides nothing."""

from __future__ import annotations

import numpy as np

from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.train.schedule import ScheduleConfig


def described_model(name: str, model: TaskModel) -> str:
    """Its size, and how much of it is trained."""
    config = model.bert.config
    counts = [(each.numel(), each.requires_grad) for each in model.parameters()]
    total, trained = sum(count for count, _ in counts), sum(count for count, on in counts if on)
    told = (
        f"{name}: {config.num_hidden_layers} layers of {config.hidden_size}, {total:,} parameters"
    )
    return told if trained == total else f"{told}, {trained:,} of them trained"


def described_examples(num_examples: int, labelled: LabelledItems) -> str:
    """How many there are, how long, and how much of them does not fit."""
    lengths = np.array([len(item.token_ids) for item in labelled.items])
    unread = np.array([item.num_unread for item in labelled.items])
    count, cut = len(lengths), int((unread > 0).sum())
    told = f"{num_examples:,} examples"
    if count != num_examples:
        told += f" in {count:,} sequences"
    told += f" of {lengths.mean():.0f} tokens in the mean, {lengths.max()} at most; "
    if not cut:
        return f"{told}none is cut"
    share = unread.sum() / (unread.sum() + lengths.sum())
    return f"{told}{cut:,} are cut ({cut / count:.1%}; {share:.1%} of all tokens unread)"


def described_steps(run: FinetuneRun, plan: TaskPlan, num_examples: int) -> list[tuple[str, str]]:
    """How long and at what rates it trains, and what is kept: (what, value)."""
    what = "examples" if plan.labelled.num_groups == num_examples else "sequences"
    num_steps = plan.num_steps(run.epochs)
    read = plan.epochs(num_steps)
    epochs = told_epochs(run.epochs, read)
    if plan.labelled.num_groups < run.batch_size and not _is_told_alike(run.epochs, read):
        epochs += f", since a step is always of {run.batch_size} and there are only "
        epochs += f"{plan.labelled.num_groups:,}"
    often = f"{run.evaluate_every:g} epochs" if plan.epochs(1) <= run.evaluate_every else "step"
    schedule = ScheduleConfig(total_steps=num_steps, warmup_share=run.warmup_share)
    kept = "the best on Dev is kept" if run.keep_best else "the last model is kept"
    if run.patience:
        kept += f"; ends when {run.patience} in a row are no better"
    return [
        (
            "steps",
            f"{num_steps:,} of {run.batch_size} {what}: {epochs}; seed {run.seed}",
        ),
        (
            "schedule",
            f"{run.optimizer.name}: 0 -> {run.optimizer.learning_rate:g} over "
            f"{schedule.num_warmup_steps:,} steps, then linear to 0 at step {num_steps:,}",
        ),
        ("evaluation", f"every {often}; {kept}"),
    ]


def told_epochs(asked: float, read: float) -> str:
    """Times the examples are read, beside those asked for where steps do not come out even."""
    if _is_told_alike(asked, read):
        return f"{asked:g} epochs"
    return f"{asked:g} epochs asked for, {read:.3g} read"


def _is_told_alike(asked: float, read: float) -> bool:
    return f"{asked:.3g}" == f"{read:.3g}"


def num_values(plan: TaskPlan, epochs: float, model: TaskModel) -> int:
    """Hidden values that the whole run makes: what decides whether fused kernels pay."""
    config = model.bert.config
    return int(plan.labelled.num_tokens * epochs) * config.num_hidden_layers * config.hidden_size
