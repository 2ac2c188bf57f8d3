"""What each score can be, by the task that it is of."""

from __future__ import annotations

import math

import pytest

from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.metrics import Interval
from bertsmith.tasks.score_range import score_range
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering

CLASSES = Classification(scheme=LabelScheme(("a", "b")))
NUMBERS = Classification(scheme=LabelScheme(("score",), "regression"))


@pytest.mark.parametrize(
    ("task", "name", "low", "high"),
    [
        (CLASSES, "accuracy", 0.0, 1.0),
        (CLASSES, "f1", 0.0, 1.0),
        (CLASSES, "matthews", -1.0, 1.0),
        (NUMBERS, "spearman", -1.0, 1.0),
        (MultipleChoice(), "accuracy", 0.0, 1.0),
        (SpanAnswering(), "f1", 0.0, 100.0),
        (object(), "accuracy", -math.inf, math.inf),
    ],
)
def test_a_score_lies_in_the_range_of_its_formula(
    task: AnyTask, name: str, low: float, high: float
) -> None:
    assert score_range(task, name) == Interval(low=low, high=high)
