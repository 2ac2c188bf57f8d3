"""Figures of a run and of guessing -> what is said of it."""

from __future__ import annotations

import math

import pytest

from bertsmith.runs.failure import Guessing, advice_on, failure_by, failure_of

PLACE = "words 9 to 24 of every passage"
SPANS = Guessing(score=9.66, loss=4.5, about=PLACE)


@pytest.mark.parametrize(
    ("guessing", "failure", "reached"),
    [
        (
            Guessing(score=0.5, loss=0.6),
            "Dev f1 0.4; one answer to all has 0.5",
            "one answer to all (f1 0.4)",
        ),
        (
            SPANS,
            f"Dev f1 0.4; one answer to all, {PLACE}, has 9.66",
            f"one answer to all, {PLACE} (f1 0.4)",
        ),
    ],
)
def test_a_run_no_better_than_one_answer_says_which(
    guessing: Guessing, failure: str, reached: str
) -> None:
    scores = {"f1": 0.4, "exact": 0.0}
    assert failure_of(scores, 0.1, guessing) == failure
    told = advice_on(scores, 0.1, guessing)
    assert told == f"no better than {reached}: more epochs, another rate or another seed may help"
    assert failure_of({"f1": 9.67}, 0.1, guessing) == advice_on({"f1": 9.67}, 0.1, guessing) == ""


def test_one_answer_is_reached_however_its_sum_was_rounded() -> None:
    assert failure_of({"f1": 9.66 + 1e-12}, None, SPANS)


def test_another_metric_replaces_the_score_of_a_place_and_keeps_the_loss() -> None:
    scores = {"f1": 8.2, "exact": 3.1}
    failure = failure_of(scores, 4.6, SPANS)
    by_loss = "training loss 4.6; guessing by frequency has 4.5"
    assert failure == f"Dev f1 8.2; one answer to all, {PLACE}, has 9.66, and {by_loss}"
    assert failure_by("exact", failure, scores, 1.68) == by_loss
    assert failure_by("exact", failure, scores, math.inf).endswith(f"has inf, and {by_loss}")
