"""A task's loss on a packed stream is the mean of each answer's loss by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model import task_model
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from bertsmith.model.task import TaskHeadConfig, TaskKind
from bertsmith.model.task_model import COUNT, LOSS_SUM, TaskModel

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=24)
LENGTHS = [5, 2, 24, 11, 7]
DRAWS = np.random.default_rng(0)
ITEMS = [
    Item(
        token_ids=DRAWS.integers(5, 60, length).astype(np.int32),
        segment_ids=np.zeros(length, np.int32),
        num_unread=0,
    )
    for length in LENGTHS
]


def labelled_items(kind: TaskKind, problem: str | None) -> LabelledItems:
    groups = np.arange(5)
    rows = None
    if kind == "token_classification":
        rows = [np.arange(1, length, 2) for length in LENGTHS]
        targets = [DRAWS.integers(0, 3, len(each)) for each in rows]
    elif kind == "question_answering":
        targets = [np.sort(DRAWS.integers(0, length, 2)) for length in LENGTHS]
    elif kind == "multiple_choice":
        groups = np.array([0, 0, 0, 1, 1])
        targets = [np.array([value]) for value in (0.0, 1.0, 0.0, 1.0, 0.0)]
    elif problem == "regression":
        targets = [np.array([value]) for value in DRAWS.normal(size=5)]
    elif problem == "multi_label_classification":
        targets = [DRAWS.integers(0, 2, 3).astype(np.float64) for _ in LENGTHS]
    else:
        targets = [np.array([value]) for value in DRAWS.integers(0, 3, 5)]
    return LabelledItems(
        items=ITEMS, groups=groups, rows=rows, targets=targets,
        by_row=kind == "token_classification",
    )  # fmt: skip


def _plain(model: TaskModel, labelled: LabelledItems) -> Tensor:
    """Each sequence read alone; torch's own losses; the mean over answers."""
    scores, answers = [], []
    config = model.head.config
    for number in range(len(ITEMS)):
        alone = LabelledItems(
            items=[ITEMS[number]], groups=np.zeros(1, np.int64), rows=None,
            targets=[labelled.targets[number]],
        )  # fmt: skip
        stream = Stream.of(alone.batch(np.zeros(1, np.int64)).packed)
        logits, target = model.head.logits(model.bert, stream), labelled.targets[number]
        scores.append(logits)
        right = torch.from_numpy(np.asarray(target))
        if config.kind == "token_classification":
            assert labelled.rows is not None
            of_rows = logits[torch.from_numpy(labelled.rows[number])]
            answers += [
                functional.cross_entropy(*pair) for pair in zip(of_rows, right, strict=True)
            ]
        elif config.kind == "question_answering":
            answers.append((functional.cross_entropy(logits.T, right, reduction="sum")) / 2)
        elif config.problem_type == "regression":
            answers.append(functional.mse_loss(logits[0], right))
        elif config.problem_type == "multi_label_classification":
            answers.append(functional.binary_cross_entropy_with_logits(logits[0], right))
        elif config.kind == "sequence_classification":
            answers.append(functional.cross_entropy(logits, right))
    if config.kind == "multiple_choice":
        flat = torch.cat(scores)[:, 0]
        for group, right in ((slice(0, 3), 1), (slice(3, 5), 0)):
            answers.append(functional.cross_entropy(flat[group], torch.tensor(right)))
    return torch.stack(answers).mean()


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(
    ("kind", "num_labels", "problem"),
    [
        ("sequence_classification", 3, None),
        ("sequence_classification", 1, "regression"),
        ("sequence_classification", 3, "multi_label_classification"),
        ("token_classification", 3, None),
        ("multiple_choice", 1, None),
        ("question_answering", 2, None),
    ],
)
def test_the_parts_of_a_step_add_up_to_the_mean_over_its_answers(
    kind: TaskKind, num_labels: int, problem: str | None, parts: int
) -> None:
    labels = tuple(map(str, range(num_labels)))
    head = TaskHead(CONFIG, TaskHeadConfig(kind=kind, labels=labels, problem_type=problem))  # type: ignore[arg-type]
    model = TaskModel(Bert(CONFIG), head).double()
    initialise(model, std=0.3, seed=1)
    labelled = labelled_items(kind, problem)
    step = labelled.batch(np.arange(labelled.num_groups))
    found = [model(part) for part in step.split(parts)]
    loss = torch.stack([part.loss for part in found]).sum()
    expected = _plain(model, labelled)
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=1e-10)
    summed = sum(part.sums[LOSS_SUM] for part in found)
    counted = sum(part.sums[COUNT] for part in found)
    torch.testing.assert_close(summed / counted, expected.detach(), rtol=1e-10, atol=1e-10)
    ours, plain = (torch.autograd.grad(each, head.scores.weight)[0] for each in (loss, expected))
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "sequence_classification"},
        {"kind": "sequence_classification", "pooling": "mean", "layers": "1,2"},
        {"kind": "sequence_classification", "on_top": "bilstm", "lstm_size": 5},
        {"kind": "token_classification", "layers": "weighted-sum-all"},
        {"kind": "token_classification", "on_top": "bilstm", "lstm_size": 5},
        {"kind": "question_answering", "labels": ("start", "end")},
        {"kind": "multiple_choice", "labels": ("score",)},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)
def test_spare_rows_change_neither_loss_nor_gradient(
    given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    head = TaskHead(CONFIG, TaskHeadConfig(**{"labels": ("0", "1", "2"), **given}))
    model = TaskModel(Bert(CONFIG), head).double()
    initialise(model, std=0.3, seed=1)
    labelled = labelled_items(given["kind"], None)
    if labelled.rows is not None:  # 44 of them: no round number, as the 49 tokens are none
        labelled = replace(
            labelled,
            rows=[np.arange(1, length) for length in LENGTHS],
            targets=[DRAWS.integers(0, 3, length - 1) for length in LENGTHS],
        )
    batch = labelled.batch(np.arange(labelled.num_groups))
    found = []
    for is_rounded in (False, True):
        monkeypatch.setattr(task_model, "builds_kernels_by_size", lambda _, it=is_rounded: it)
        assert model.laid_out(batch, None)[0].has_spare_rows is is_rounded
        losses = model(batch, (3, 4))
        used = [parameter for parameter in model.parameters() if parameter.requires_grad]
        gradients = torch.autograd.grad(losses.loss, used, allow_unused=True)
        found.append((losses.loss.detach(), [each for each in gradients if each is not None]))
    (plain, gradients), (loss, of_rounded) = found
    torch.testing.assert_close(loss, plain, rtol=1e-12, atol=1e-12)
    assert len(gradients) == len(of_rounded) > 20
    for ours, expected in zip(of_rounded, gradients, strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_a_head_of_pooled_vectors_needs_a_pooler() -> None:
    config = TaskHeadConfig(kind="sequence_classification", labels=("a", "b"))
    with pytest.raises(ValueError, match="holds no pooler"):
        TaskModel(Bert(CONFIG, with_pooler=False), TaskHead(CONFIG, config))
