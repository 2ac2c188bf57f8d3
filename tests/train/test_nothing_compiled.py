"""Where functions in C++ are, a BERT's steps on a CPU do not wait for torch.compile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from bertsmith import fusion
from bertsmith.model import vocabulary_loss
from bertsmith.model.bert import Bert
from bertsmith.model.config import BertConfig, Objective
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.task import TaskHeadConfig, TaskKind
from bertsmith.model.task_model import TaskModel
from bertsmith.train.config import OptimizerConfig, OptimizerName, Precision
from bertsmith.train.placement import placed
from tests.builds import NEEDS_COMPILER, forget_builds, with_vectors_of
from tests.model.plain import random_pretrain_batch
from tests.model.test_task_model import CONFIG, labelled_items

pytestmark = NEEDS_COMPILER
in_both = pytest.mark.parametrize("precision", ["fp32", "bf16"])


@pytest.fixture(autouse=True)
def _refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, as far as anybody asks, and whoever asks more of it fails."""
    monkeypatch.setattr(fusion, "is_fusing", lambda _: True)
    monkeypatch.setattr(fusion, "_compiled", lambda function: pytest.fail(function.__name__))


def steps(
    model: nn.Module, precision: Precision, *batches: object, by: OptimizerName = "bert_adam"
) -> None:
    initialise(model, std=0.2, seed=0)
    optimizer = placed(model, OptimizerConfig(name=by), precision, torch.device("cpu"))
    for number, batch in enumerate(batches):
        loss = model(batch, (0, number)).loss
        assert loss > 0
        loss.backward()
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
def test_of_lamb(precision: Precision) -> None:
    model = PretrainModel(CONFIG, ("masked_lm",))
    steps(model, precision, random_pretrain_batch([20, 24, 9], 60), by="lamb")


@in_both
def test_of_a_bilstm_on_top(precision: Precision) -> None:
    head = TaskHeadConfig(kind="token_classification", labels=("O", "B"), on_top="bilstm")
    model = TaskModel(Bert(CONFIG), TaskHead(CONFIG, head))
    labelled = labelled_items("token_classification", None)
    labelled = replace(labelled, targets=[each.clip(max=1) for each in labelled.targets])
    steps(model, precision, labelled.batch(np.arange(labelled.num_groups)))


def test_of_narrower_vectors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with AVX2 alone, where models are in float32."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_vectors_of("32", monkeypatch)
    try:
        model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
        steps(model, "fp32", random_pretrain_batch([20, 24, 9], 60))
    finally:
        forget_builds()
    assert list(tmp_path.glob("bertsmith/cpu_vocabulary_loss-*.so"))


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
