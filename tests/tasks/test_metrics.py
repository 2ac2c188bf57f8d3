"""Metrics are those of their definitions, and of the libraries people quote."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bertsmith.tasks import metrics

PREDICTED = [1, 0, 1, 1, 0, 2, 2, 0]
GOLD = [1, 0, 0, 1, 1, 2, 0, 0]

UNBOUNDED = metrics.Interval(low=-math.inf, high=math.inf)


def test_scores_of_a_case_counted_by_hand() -> None:
    assert metrics.accuracy(PREDICTED, GOLD) == 5 / 8
    assert metrics.binary_f1([1, 1, 0, 0], [1, 0, 1, 0]) == 0.5
    assert metrics.confusion([0, 1, 1], [0, 0, 1], 2).tolist() == [[1, 1], [0, 1]]
    # Classes 0, 1, 2: F1 4/7, 2/3, 2/3.
    assert metrics.macro_f1(PREDICTED, GOLD, 3) == pytest.approx((4 / 7 + 2 / 3 + 2 / 3) / 3)
    # Two of four right at 0.9 confidence, the others at 0.1: both bins are off by 0.4.
    assert metrics.calibration_error([0.9, 0.9, 0.1, 0.1], [1, 0, 1, 0]) == pytest.approx(0.4)


def test_macro_f1_is_of_the_classes_that_stand_on_either_side() -> None:
    assert metrics.macro_f1([0, 2, 2], [0, 2, 2], 4) == 1.0
    # Class 1 is answered and never right, 3 stands nowhere: F1 2/3, 0, 1.
    assert metrics.macro_f1([0, 1, 2], [0, 0, 2], 4) == pytest.approx((2 / 3 + 0 + 1) / 3)


@pytest.mark.parametrize("constant", [[1, 1, 1], [0, 0, 0]])
def test_a_constant_answer_has_no_correlation(constant: list[int]) -> None:
    for correlation in (metrics.matthews, metrics.pearson, metrics.spearman):
        assert correlation(constant, [1, 0, 1]) == 0.0
    assert metrics.binary_f1([0, 0], [0, 0]) == 0.0


@pytest.mark.parity
@pytest.mark.parametrize("seed", range(5))
def test_scores_equal_those_of_scikit_learn_and_scipy(seed: int) -> None:
    sklearn = pytest.importorskip("sklearn.metrics")
    stats = pytest.importorskip("scipy.stats")
    draws = np.random.default_rng(seed)
    first, second = draws.integers(0, 3, (2, 50))
    binary = first % 2, second % 2
    reals = np.round(draws.normal(size=(2, 60)), 1)  # rounded, so that there are ties
    assert metrics.matthews(first, second) == pytest.approx(
        sklearn.matthews_corrcoef(second, first)
    )
    assert metrics.binary_f1(*binary) == pytest.approx(sklearn.f1_score(*binary[::-1]))
    assert metrics.macro_f1(first, second, 3) == pytest.approx(
        sklearn.f1_score(second, first, average="macro")
    )
    assert metrics.macro_f1(2 * first, 2 * second, 5) == pytest.approx(
        sklearn.f1_score(2 * second, 2 * first, average="macro")
    )
    assert metrics.pearson(*reals) == pytest.approx(stats.pearsonr(*reals).statistic)
    assert metrics.spearman(*reals) == pytest.approx(stats.spearmanr(*reals).statistic)


def interval_of(score, num_examples: int) -> metrics.Interval | None:
    return metrics.intervals(lambda drawn: {"": score(drawn)}, num_examples, 1_000)[""]


def test_an_interval_holds_the_share_and_is_as_wide_as_the_normal_says() -> None:
    is_right = np.arange(400) < 300
    interval = interval_of(lambda drawn: float(is_right[drawn].mean()), 400)
    assert interval is not None
    half = 1.96 * math.sqrt(0.75 * 0.25 / 400)
    assert interval.low == pytest.approx(0.75 - half, abs=0.01)
    assert interval.high == pytest.approx(0.75 + half, abs=0.01)
    assert interval == interval_of(lambda drawn: float(is_right[drawn].mean()), 400)


def test_intervals_of_several_scores_come_from_the_same_draws() -> None:
    is_right = np.arange(60) % 3 > 0

    def score(drawn: metrics.Numbers) -> dict[str, float]:
        share = float(is_right[drawn].mean())
        return {"right": share, "wrong": 1.0 - share}

    found = metrics.intervals(score, 60, 1_000)
    assert found["wrong"] is not None
    assert found["right"] is not None
    assert found["right"] == interval_of(lambda drawn: score(drawn)["right"], 60)
    assert found["wrong"].low == pytest.approx(1.0 - found["right"].high)
    assert metrics.intervals(score, 60, 100) != found


def test_a_score_that_some_draws_lack_comes_of_the_others() -> None:
    def score(drawn: metrics.Numbers) -> dict[str, float]:
        rare = {"rare": 1.0} if 7 in drawn else {}
        return {"mean": float(np.mean(drawn)), **rare}

    found = metrics.intervals(score, 20, 100)
    assert list(found) == ["mean", "rare"]
    assert found["rare"] is None


@pytest.mark.parametrize("is_right", [[1], [1] * 8, [0] * 8, [0.1] * 7])
def test_draws_that_all_score_alike_tell_no_interval(is_right: list[float]) -> None:
    values = np.array(is_right)
    assert interval_of(lambda drawn: float(values[drawn].mean()), len(is_right)) is None
    weights = np.linspace(0.1, 1.7, len(is_right))

    def rounded(drawn: metrics.Numbers) -> float:
        return float((values * weights[drawn]).sum() / weights[drawn].sum())

    assert interval_of(rounded, len(is_right)) is None


@pytest.mark.parametrize("score", [metrics.matthews, metrics.binary_f1])
def test_right_answers_tell_no_interval_for_the_few_draws_of_one_class(score) -> None:
    gold = np.arange(8) % 2
    assert score(gold, gold) == 1.0
    assert interval_of(lambda drawn: score(gold[drawn], gold[drawn]), 8) is None


def test_draws_of_one_class_are_told_where_they_are_many() -> None:
    gold = np.arange(4) % 2
    found = interval_of(lambda drawn: metrics.matthews(gold[drawn], gold[drawn]), 4)
    assert found == metrics.Interval(low=0.0, high=1.0)


def test_an_interval_holds_the_score_where_repetition_alone_lowers_it() -> None:
    found = interval_of(lambda drawn: len(set(drawn.tolist())) / 50, 50)
    assert found is not None
    assert found.low < 0.6
    assert found.high == 1.0
