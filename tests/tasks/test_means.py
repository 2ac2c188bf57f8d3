"""Means of runs and their differences, against SciPy's Student and Welch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bertsmith.tasks import means
from bertsmith.tasks.metrics import Interval

UNBOUNDED = Interval(low=-math.inf, high=math.inf)


def test_mean_interval_is_students() -> None:
    mean, deviation, interval = means.mean_interval([0.1, 0.2, 0.3], UNBOUNDED)
    assert (mean, deviation) == (pytest.approx(0.2), pytest.approx(0.1))
    assert interval is not None
    assert interval.high == pytest.approx(0.2 + 4.3027 * 0.1 / math.sqrt(3), rel=1e-4)


def test_no_interval_is_told_of_one_or_two_or_of_equal_runs() -> None:
    assert means.mean_interval([0.5], UNBOUNDED) == (0.5, 0.0, None)
    mean, deviation, interval = means.mean_interval([0.4, 0.6], UNBOUNDED)
    assert (mean, deviation) == (0.5, pytest.approx(math.sqrt(0.02)))
    assert interval is None
    assert means.mean_interval([0.6, 0.6, 0.6], UNBOUNDED)[1:] == (0.0, None)


def test_the_interval_of_a_mean_is_cut_to_what_is_possible() -> None:
    possible = Interval(low=0.0, high=1.0)
    assert means.mean_interval([0.1, 0.9, 0.5], possible)[2] == possible
    interval = means.mean_interval([0.9, 0.95, 1.0], possible)[2]
    assert interval is not None
    assert interval.low == pytest.approx(0.95 - 4.3027 * 0.05 / math.sqrt(3), rel=1e-4)
    assert interval.high == 1.0


@pytest.mark.parity
def test_students_points_are_scipys() -> None:
    stats = pytest.importorskip("scipy.stats")
    for count in (3, 5, 31, 32, 60, 400):
        scores = np.linspace(0, 1, count)
        mean, deviation, interval = means.mean_interval(scores.tolist(), UNBOUNDED)
        assert interval is not None
        half = stats.t.ppf(0.975, count - 1) * deviation / math.sqrt(count)
        assert interval.high - mean == pytest.approx(half, rel=2e-3)


@pytest.mark.parity
@pytest.mark.parametrize(
    "freedom", [1.0, 2.0, 2.1, 2.5, 2.9, 3.4, 5.5, 11.2, 29.9, 30.0, 30.5, 200.0]
)
@pytest.mark.parametrize("chance", [0.05, 0.05 / 13])
def test_points_of_any_chance_are_scipys(freedom: float, chance: float) -> None:
    point = pytest.importorskip("scipy.stats").t.ppf(1 - chance / 2, freedom)
    assert means.student(freedom, chance) == pytest.approx(point, rel=2e-4)


def test_an_interval_of_several_differences_is_wider() -> None:
    gap = means.difference((80.0, 81.0, 83.5), (79.0, 79.5, 78.0))
    assert gap.half_width_of(1) == gap.half_width
    widths = [gap.half_width_of(number) for number in (1, 2, 13)]
    assert widths == sorted(set(widths))
    assert math.isnan(means.difference((80.0,), (79.0,)).half_width_of(2))


@pytest.mark.parity
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((80.0, 81.0, 83.5, 80.2, 82.0), (79.0, 79.5, 78.0, 79.9, 78.5)),
        ((52.2, 54.0, 50.1), (51.8, 51.9, 51.7)),
        ((80.0, 82.0, 84.0), (81.0, 83.0, 85.0)),
    ],
)
def test_the_interval_is_welchs(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    stats = pytest.importorskip("scipy.stats")
    gap = means.difference(first, second)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert gap.value == pytest.approx(np.mean(first) - np.mean(second))
    half = (interval.high - interval.low) / 2
    assert gap.half_width == pytest.approx(half, rel=2e-4)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((80.0,), (85.0, 86.0)),
        ((2.0, 2.0), (1.0, 1.0)),
        ((2.0, 2.0), (1.0, 1.5)),
        ((), (85.0, 86.0)),
    ],
)
def test_single_missing_and_all_equal_runs_have_no_interval(
    first: tuple[float, ...], second: tuple[float, ...]
) -> None:
    gap = means.difference(first, second)
    assert math.isnan(gap.half_width)
    expected = np.mean(first) - np.mean(second) if first else math.nan
    assert gap.value == pytest.approx(expected, nan_ok=True)
