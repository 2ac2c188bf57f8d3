"""What work asks for is listed, so it is built beforehand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith import native
from bertsmith.answering import make_ready
from bertsmith.compiler import without_native
from bertsmith.cores import SOURCE as CORES
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.cpu_sources import of_answers
from bertsmith.model.init import initialise
from bertsmith.model.layers import lay_out
from bertsmith.model.linear import linears
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream
from bertsmith.native import multiplies_float16
from bertsmith.runs import functions
from bertsmith.train.config import OptimizerConfig, Precision
from bertsmith.train.placement import placed
from tests.builds import NEEDS_COMPILER
from tests.model.plain import random_packed, random_pretrain_batch

pytestmark = NEEDS_COMPILER
CPU = torch.device("cpu")
CONFIG = replace(sized(2, 64, 1), vocab_size=60, max_position_embeddings=64)
PRECISIONS = [
    *("fp32", "bf16"),
    pytest.param("fp16", marks=pytest.mark.skipif(not multiplies_float16(), reason="none here")),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Sources that somebody asks for, beside that for threads."""
    found: set[Path] = set()
    loaded = native._loaded

    def remembered(source: Path) -> object:
        found.update({source} - {CORES})
        return loaded(source)

    monkeypatch.setattr(native, "_loaded", remembered)
    return found


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_step_asks_for_nothing_that_is_not_listed(precision: Precision, asked: set[Path]) -> None:
    model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
    initialise(model, std=0.2, seed=0)
    optimizer = placed(model, OptimizerConfig(), precision, CPU)
    model(random_pretrain_batch([20, 24, 9], 60), (0, 1)).loss.backward()
    optimizer.step(1e-3)
    assert len(asked) >= 4
    assert asked <= set(functions._sources(precision, CPU))


@pytest.mark.parametrize("precision", PRECISIONS)
@torch.no_grad()
def test_an_answer_asks_for_nothing_that_is_not_listed(
    precision: Precision, asked: set[Path]
) -> None:
    bert = Bert(CONFIG)
    initialise(bert, std=0.2, seed=0)
    make_ready(bert, precision, CPU)
    bert(Stream.of(random_packed([20, 24, 9], 60)))
    assert asked
    assert asked <= set(of_answers(linears(bert)))


def test_a_model_that_no_function_takes_asks_for_none() -> None:
    bert = Bert(CONFIG)
    assert of_answers([]) == []
    assert of_answers(linears(bert.double())) == []
    assert of_answers(linears(bert.to("meta"))) == []


def test_weights_are_laid_out_when_what_will_be_asked_for_was_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared: list[list[Path]] = []
    monkeypatch.setattr("bertsmith.model.layers.build_together", prepared.append)
    bert = Bert(CONFIG)
    lay_out(bert)
    assert prepared == [of_answers(linears(bert))]


def test_a_run_knows_whether_it_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert functions.are_there("fp32", CPU)
    assert not functions.are_there("fp32", torch.device("meta"))
    with without_native():
        assert not functions.are_there("fp32", CPU)
    monkeypatch.setattr(functions, "multiplies_float16", lambda: False)
    assert not functions.are_there("fp16", CPU)
