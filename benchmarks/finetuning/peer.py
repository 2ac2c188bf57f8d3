"""`transformers` fine-tuned on our items: its model and dropout, torch's AdamW, our schedule.

The rates are google-research/bert's, as ours: those of its `get_linear_schedule_with_warmup` fall
from the end of warm-up, not from step 0, and are a ninth higher ever after. Every batch is padded
to its longest sequence, and the loss is the one of its own classes, in bf16 autocast where it is
told so. Items, and what becomes of the scores, are ours for both systems: what differs is model and
training.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.task import TaskHeadConfig
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.train.config import Precision
from bertsmith.train.schedule import ScheduleConfig

FloatArray = npt.NDArray[np.floating]
_UNDECAYED = ("bias", "LayerNorm.weight")
_ANSWERED_AT_ONCE = 64
_BATCHES_SORTED = 8


def peer_model(directory: Path, head: TaskHeadConfig) -> nn.Module:
    """The class of `transformers` for this head, with the weights of the directory."""
    import transformers

    classes = {
        "sequence_classification": transformers.AutoModelForSequenceClassification,
        "token_classification": transformers.AutoModelForTokenClassification,
        "question_answering": transformers.AutoModelForQuestionAnswering,
        "multiple_choice": transformers.AutoModelForMultipleChoice,
    }
    named = {} if head.kind in ("multiple_choice", "question_answering") else {
        "num_labels": head.num_labels
    }  # fmt: skip
    model: nn.Module = classes[head.kind].from_pretrained(directory, dtype=torch.float32, **named)
    return model


def train_peer(
    directory: Path,
    head: TaskHeadConfig,
    labelled: LabelledItems,
    run: FinetuneRun,
    precision: Precision,
) -> nn.Module:
    """A model that has learned the items by the run's values."""
    import transformers

    transformers.set_seed(run.seed)
    model = peer_model(directory, head).train()
    named = list(model.named_parameters())
    config = run.optimizer
    optimizer = torch.optim.AdamW(
        [
            {"params": [w for name, w in named if not name.endswith(_UNDECAYED)]},
            {"params": [w for name, w in named if name.endswith(_UNDECAYED)], "weight_decay": 0.0},
        ],
        lr=config.learning_rate,
        betas=(config.beta1, config.beta2),
        eps=config.epsilon,
        weight_decay=config.weight_decay,
        fused=True,
    )
    num_steps = max(1, int(labelled.num_groups * run.epochs / run.batch_size))
    rates = ScheduleConfig(total_steps=num_steps, warmup_share=run.warmup_share)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rates.rate)
    for _, groups in zip(range(num_steps), _shuffled(labelled, run), strict=False):
        loss = peer_loss(model, head, labelled, groups, precision)
        loss.backward()
        if config.clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return model.eval()


def peer_scores(
    model: nn.Module, head: TaskHeadConfig, labelled: LabelledItems, precision: Precision = "fp32"
) -> list[FloatArray]:
    """Each item's (C,) scores, or (R, C) of its rows, in the items' order."""
    order = np.argsort([len(item.token_ids) for item in labelled.items], kind="stable")
    scores: list[FloatArray] = [np.empty(0)] * len(order)
    for start in range(0, len(order), _ANSWERED_AT_ONCE):
        numbers = order[start : start + _ANSWERED_AT_ONCE]
        with torch.no_grad():
            logits = _logits(model, head, labelled, numbers, precision)
        for number, of_item in zip(numbers, logits, strict=True):
            scores[number] = _own_rows(of_item, labelled, number, head).numpy()
    return scores


def peer_loss(
    model: nn.Module,
    head: TaskHeadConfig,
    labelled: LabelledItems,
    groups: npt.NDArray[np.integer],
    precision: Precision = "fp32",
) -> Tensor:
    """The mean loss of these groups, as `transformers`' own classes define it."""
    numbers = np.concatenate([np.flatnonzero(labelled.groups == group) for group in groups])
    logits = _logits(model, head, labelled, numbers, precision)
    targets = [torch.from_numpy(np.asarray(labelled.targets[number])) for number in numbers]
    if head.kind == "multiple_choice":
        counts = [int((labelled.groups == group).sum()) for group in groups]
        return torch.stack([
            functional.cross_entropy(scores[:, 0][None], right.argmax()[None])
            for scores, right in zip(
                logits.split(counts), torch.cat(targets).split(counts), strict=True
            )
        ]).mean()  # fmt: skip
    if head.kind == "question_answering":
        spans = torch.stack(targets).long()
        return torch.stack([
            functional.cross_entropy(logits[..., side], spans[:, side]) for side in (0, 1)
        ]).mean()  # fmt: skip
    if head.kind == "token_classification":
        rows = [
            _own_rows(scores, labelled, number, head)
            for number, scores in zip(numbers, logits, strict=True)
        ]
        return functional.cross_entropy(torch.cat(rows), torch.cat(targets).long())
    if head.problem_type == "regression":
        return functional.mse_loss(logits[:, 0], torch.cat(targets).float())
    return functional.cross_entropy(logits, torch.cat(targets).long())


def _logits(
    model: nn.Module,
    head: TaskHeadConfig,
    labelled: LabelledItems,
    numbers: npt.NDArray[np.integer],
    precision: Precision,
) -> Tensor:
    """(N, C) of sequences, (N, S, C) of padded tokens; padding of spans is -inf."""
    items = [labelled.items[number] for number in numbers]
    longest = max(len(item.token_ids) for item in items)
    ids, segments, mask = (torch.zeros(len(items), longest, dtype=torch.long) for _ in range(3))
    for row, item in enumerate(items):
        length = len(item.token_ids)
        ids[row, :length] = torch.from_numpy(item.token_ids.astype(np.int64))
        segments[row, :length] = torch.from_numpy(item.segment_ids.astype(np.int64))
        mask[row, :length] = 1
    inputs: dict[str, Any] = {
        "input_ids": ids, "token_type_ids": segments, "attention_mask": mask,
    }  # fmt: skip
    if head.kind == "multiple_choice":
        # Its class wants the same number of choices everywhere: a question of one choice each.
        inputs = {name: value[:, None] for name, value in inputs.items()}
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        output = model(**inputs)
    if head.kind == "question_answering":
        both = torch.stack([output.start_logits, output.end_logits], dim=-1).float()
        return both.masked_fill(mask[..., None] == 0, -torch.inf)
    logits: Tensor = output.logits
    return logits.float()


def _own_rows(scores: Tensor, labelled: LabelledItems, number: int, head: TaskHeadConfig) -> Tensor:
    if not head.reads_tokens:
        return scores
    if labelled.rows is not None:
        return scores[torch.from_numpy(np.asarray(labelled.rows[number], dtype=np.int64))]
    return scores[: len(labelled.items[number].token_ids)]


def _shuffled(labelled: LabelledItems, run: FinetuneRun) -> Iterator[npt.NDArray[np.integer]]:
    """Groups of a step, without end: every epoch in an order of its own.

    Groups of nearly one length share a step, as its Trainer can have it too, for else half of what
    it computes is padding; here the steps then come in random order. Where a step's loss is a mean
    over tokens, it takes the very steps that ours does: among short sequences alone each token
    would weigh more.
    """
    if labelled.by_row:
        plan = TaskPlan(labelled=labelled, batch_size=run.batch_size, seed=run.seed)
        yield from map(plan.groups, itertools.count())
    generator = torch.Generator().manual_seed(run.seed)
    lengths = np.zeros(labelled.num_groups, dtype=np.int64)
    np.maximum.at(lengths, labelled.groups, [len(item.token_ids) for item in labelled.items])
    waiting: npt.NDArray[np.integer] = np.empty(0, dtype=np.int64)
    while True:
        while len(waiting) < run.batch_size:
            order = torch.randperm(labelled.num_groups, generator=generator).numpy()
            waiting = np.concatenate(
                [waiting, near_lengths(order, lengths, run.batch_size, generator)]
            )
        yield waiting[: run.batch_size]
        waiting = waiting[run.batch_size :]


def near_lengths(
    order: npt.NDArray[np.integer],
    lengths: npt.NDArray[np.int64],
    batch_size: int,
    generator: torch.Generator,
) -> npt.NDArray[np.integer]:
    """The order, in which every few batches are sorted by length and all batches are shuffled."""
    many = _BATCHES_SORTED * batch_size
    parts = [order[start : start + many] for start in range(0, len(order), many)]
    by_length = np.concatenate([part[np.argsort(lengths[part], kind="stable")] for part in parts])
    batches = [by_length[start : start + batch_size] for start in range(0, len(order), batch_size)]
    shuffled = torch.randperm(len(batches), generator=generator).tolist()
    return np.concatenate([batches[number] for number in shuffled])
