"""Several models' scores as one: the mean of their probabilities, formed plainly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.tasks.averaging import averaged

Reals = npt.NDArray[np.floating]
DRAWS = np.random.default_rng(0)
GROUPS = np.array([0, 0, 1, 1, 1])


def softmax(scores: Reals) -> Reals:
    powers = np.exp(scores)
    shares: Reals = powers / powers.sum(axis=-1, keepdims=True)
    return shares


def sigmoid(scores: Reals) -> Reals:
    shares: Reals = 1.0 / (1.0 + np.exp(-scores))
    return shares


def unchanged(scores: Reals) -> Reals:
    return scores


def head(kind: str, problem_type: str | None = None) -> TaskHeadConfig:
    count = {"multiple_choice": 1, "question_answering": 2}.get(kind, 3)
    count = 1 if problem_type == "regression" else count
    return TaskHeadConfig(
        kind=kind,
        labels=("a", "b", "c")[:count],
        problem_type=problem_type,  # type: ignore[arg-type]
    )


def items(count: int, groups: npt.NDArray[np.int64] | None = None) -> LabelledItems:
    item = Item(token_ids=np.zeros(4, np.int32), segment_ids=np.zeros(4, np.int32), num_unread=0)
    groups = np.arange(count) if groups is None else groups
    return LabelledItems(items=[item] * count, groups=groups, rows=None, targets=[])


@pytest.mark.parametrize(
    ("of_head", "shape", "shares"),
    [
        (head("sequence_classification"), (3,), softmax),
        (head("token_classification"), (4, 3), softmax),
        (head("sequence_classification", "multi_label_classification"), (3,), sigmoid),
        (head("sequence_classification", "regression"), (1,), unchanged),
        (head("question_answering"), (7, 2), unchanged),
    ],
)
def test_shares_are_averaged(
    of_head: TaskHeadConfig, shape: tuple[int, ...], shares: Callable[[Reals], Reals]
) -> None:
    of_models = [[DRAWS.normal(0.0, 3.0, shape) for _ in range(5)] for _ in range(3)]
    found = averaged(of_head, items(5), of_models)
    for number, scores in enumerate(found):
        expected = np.mean([shares(scores[number]) for scores in of_models], axis=0)
        np.testing.assert_allclose(shares(scores), expected, atol=1e-12)


def test_choices_are_averaged_over_their_question() -> None:
    of_models = [[DRAWS.normal(0.0, 3.0, 1) for _ in GROUPS] for _ in range(3)]
    found = averaged(head("multiple_choice"), items(5, GROUPS), of_models)
    for group in (0, 1):
        there = np.flatnonzero(group == GROUPS)
        expected = np.mean(
            [softmax(np.concatenate([scores[item] for item in there])) for scores in of_models],
            axis=0,
        )
        ours = softmax(np.concatenate([found[item] for item in there]))
        np.testing.assert_allclose(ours, expected, atol=1e-12)


def test_scores_beyond_the_range_of_shares_stay_finite() -> None:
    sure = [[np.array([2000.0, -2000.0, 0.0])], [np.array([1500.0, -1500.0, 0.0])]]
    for problem_type in (None, "multi_label_classification"):
        (scores,) = averaged(head("sequence_classification", problem_type), items(1), sure)
        assert np.isfinite(scores).all()
        assert scores.argmax() == 0
