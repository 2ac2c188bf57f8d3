"""What the paper says of fine-tuning in sections 4 and 5 and in appendix A.3, value for value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems, TaskPlan
from bertsmith.model.config import BASE, LARGE
from bertsmith.model.task import TaskHeadConfig
from bertsmith.recipes.finetuning import (
    GRIDS,
    PAPER_GRID,
    RECIPES,
    FinetuneRun,
    glue,
    restarts,
    squad,
    squad2,
    swag,
)
from bertsmith.tasks.averaging import averaged
from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging
from bertsmith.train.config import OptimizerConfig

PAPER_RECIPES = ("glue", "squad", "squad2", "swag", "ner")


def test_the_exhaustive_search_of_a_3() -> None:
    """Batch size 16, 32; learning rate (Adam) 5e-5, 3e-5, 2e-5; number of epochs 2, 3, 4."""
    assert PAPER_GRID.batch_sizes == (16, 32)
    assert PAPER_GRID.learning_rates == (5e-5, 3e-5, 2e-5)
    assert PAPER_GRID.epochs == (2.0, 3.0, 4.0)
    assert len(PAPER_GRID.runs(glue())) == 2 * 3 * 3


def test_glue_of_4_1() -> None:
    """A batch of 32, 3 epochs, and the best rate on Dev among 5e-5, 4e-5, 3e-5 and 2e-5."""
    runs = GRIDS["glue"].runs(glue())
    assert {(run.batch_size, run.epochs) for run in runs} == {(32, 3.0)}
    assert [run.optimizer.learning_rate for run in runs] == [5e-5, 4e-5, 3e-5, 2e-5]


@pytest.mark.parametrize(
    ("run", "epochs", "rate", "batch_size"),
    [(squad(), 3, 5e-5, 32), (squad2(), 2, 5e-5, 48), (swag(), 3, 2e-5, 16)],
    ids=["4.2", "4.3", "4.4"],
)
def test_spans_and_choices_of_4_2_to_4_4(
    run: FinetuneRun, epochs: float, rate: float, batch_size: int
) -> None:
    """One run each: the paper tried nothing beside it."""
    assert (run.epochs, run.optimizer.learning_rate, run.batch_size) == (epochs, rate, batch_size)
    assert GRIDS[run.name].runs(run) == [run]


def test_questions_and_passages_are_read_as_the_code_reads_them() -> None:
    """Windows of 384 tokens every 128, questions of 64, answers of 30, the 20 best kept."""
    config = SquadConfig()
    assert (config.max_tokens, config.doc_stride, config.max_question_tokens) == (384, 128, 64)
    assert (config.max_answer_tokens, config.num_best, config.null_threshold) == (30, 20, 0.0)


def test_dropout_stands_before_classifiers_and_not_before_spans() -> None:
    """run_classifier.py drops a tenth of the pooled vector; run_squad.py drops nothing."""
    heads = {
        0.1: (Classification(scheme=LabelScheme(("x", "y"))), MultipleChoice(),
              Tagging(scheme=TagScheme(("O", "B-X", "I-X"), is_of_entities=True))),
        0.0: (SpanAnswering(version="1.1"),),
    }  # fmt: skip
    for rate, tasks in heads.items():
        assert {task.head.dropout for task in tasks} == {rate}


@pytest.mark.parametrize("name", PAPER_RECIPES)
def test_what_a_3_keeps_of_pretraining(name: str) -> None:
    """Dropout stays at 0.1; the optimizer is pre-training's, its rate and schedule apart."""
    run = RECIPES[name]()
    assert run.dropout
    assert (BASE.hidden_dropout_prob, LARGE.attention_probs_dropout_prob) == (0.1, 0.1)
    assert run.optimizer == OptimizerConfig(learning_rate=run.optimizer.learning_rate)
    assert (run.approach, run.frozen_layers, run.patience) == ("fine_tuning", 0, 0)


def test_random_restarts_shuffle_and_head_anew() -> None:
    """4.1: the same checkpoint, other shuffling and another first classifier layer."""
    run = glue()
    again = restarts(run, 5)
    assert [each.seed for each in again] == [0, 1, 2, 3, 4]
    assert [replace(each, seed=0) for each in again] == [run] * 5
    item = Item(token_ids=np.zeros(3, np.int32), segment_ids=np.zeros(3, np.int32), num_unread=0)
    labelled = LabelledItems(
        items=[item] * 64,
        groups=np.arange(64),
        rows=None,
        targets=[np.array([n]) for n in range(64)],
    )
    orders = {
        TaskPlan(labelled=labelled, batch_size=64, seed=each.seed).step(0).targets.tobytes()
        for each in again
    }
    assert len(orders) == 5


def test_an_ensemble_answers_by_what_its_systems_say_together() -> None:
    """4.2, Table 2: here the span whose summed start and end scores are highest over systems."""
    head = TaskHeadConfig(kind="question_answering", labels=("start", "end"), dropout=0.0)
    draws = np.random.default_rng(0)
    of_models = [[draws.normal(size=(9, 2))] for _ in range(7)]
    item = Item(token_ids=np.zeros(9, np.int32), segment_ids=np.zeros(9, np.int32), num_unread=0)
    labelled = LabelledItems(items=[item], groups=np.array([0]), rows=None, targets=[])
    (scores,) = averaged(head, labelled, of_models)
    np.testing.assert_allclose(7 * scores, np.sum([each[0] for each in of_models], axis=0))
