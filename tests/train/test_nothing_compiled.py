"""Where functions in C++ are, a BERT's steps on a CPU do not wait for torch.compile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from bertsmith import fusion
from bertsmith.model import vocabulary_loss
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig, Objective
from bertsmith.model.heads import TaskHead
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.task import TaskHeadConfig, TaskKind
from bertsmith.model.task_model import TaskModel
from bertsmith.train.config import OptimizerConfig, Precision
from bertsmith.train.placement import placed
from tests.builds import NEEDS_COMPILER
from tests.model.plain import random_pretrain_batch
from tests.model.test_task_model import CONFIG, labelled_items

pytestmark = NEEDS_COMPILER
in_both = pytest.mark.parametrize("precision", ["fp32", "bf16"])


@pytest.fixture(autouse=True)
def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, as far as anybody asks, and whoever asks more of it fails."""
    monkeypatch.setattr(fusion, "is_fusing", lambda _: True)
    monkeypatch.setattr(fusion, "_compiled", lambda function: pytest.fail(function.__name__))


def steps(model: nn.Module, precision: Precision, *batches: object) -> None:
    optimizer = placed(model, OptimizerConfig(), precision, torch.device("cpu"))
    for number, batch in enumerate(batches):
        model(batch, (0, number)).loss.backward()
        optimizer.step(1e-3)
        optimizer.zero_grad()


@in_both
@pytest.mark.parametrize("rows_a_chunk", [1000, 2])
@pytest.mark.parametrize(
    ("config", "objectives"),
    [
        (CONFIG, ("masked_lm", "next_sentence")),
        (CONFIG, ("masked_lm",)),
        (replace(CONFIG, direction="left_to_right"), ("left_to_right_lm",)),
        (replace(CONFIG, direction="right_to_left", layer_kind="lstm"), ("right_to_left_lm",)),
    ],
    ids=["BERT", "no NSP", "left to right", "LSTM"],
)
def test_of_pretraining(
    config: BertConfig,
    objectives: tuple[Objective, ...],
    rows_a_chunk: int,
    precision: Precision,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vocabulary_loss, "CHUNK_LOGITS", rows_a_chunk * CONFIG.vocab_size)
    model = PretrainModel(config, objectives)
    batches = (random_pretrain_batch(lengths, 60) for lengths in ([20, 24, 9], [3]))
    steps(model, precision, *batches)


@in_both
@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("sequence_classification", ("no", "maybe", "yes")),
        ("sequence_classification", ("score",)),
        ("token_classification", ("O", "B", "I")),
        ("multiple_choice", ("score",)),
        ("question_answering", ("start", "end")),
    ],
)
def test_of_finetuning(kind: TaskKind, labels: tuple[str, ...], precision: Precision) -> None:
    problem = "regression" if kind == "sequence_classification" and len(labels) == 1 else None
    head = TaskHeadConfig(kind=kind, labels=labels, problem_type=problem)
    model = TaskModel(Bert(CONFIG), TaskHead(CONFIG, head))
    labelled = labelled_items(kind, problem)
    steps(model, precision, labelled.batch(np.arange(labelled.num_groups)))


def test_a_function_that_is_compiled_would_be_seen() -> None:
    with pytest.raises(pytest.fail.Exception, match="_probe"):
        fusion.fused(fusion._probe)(torch.ones(2, 3))
