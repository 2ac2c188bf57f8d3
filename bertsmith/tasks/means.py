"""Scores of several runs -> their mean with an interval, and how far two means lie apart.

Runs differ by their seeds; what the intervals say is how far other seeds would be. This file knows
no tasks and no metrics.

Source: Student 1908; Welch 1947, for kinds of runs with deviations of their own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np

from bertsmith.tasks.metrics import Interval

_FEWEST_RUNS = 3  # of two the interval of a mean is 18 deviations wide


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of two means, or of more."""

    value: float
    half_width: float
    """Of its 95% interval; NaN where deviations are unknown."""


def mean_interval(
    scores: Sequence[float], possible: Interval
) -> tuple[float, float, Interval | None]:
    """Mean and standard deviation of runs, and the mean's 95% interval (Student) where one is told.

    It is cut to what is `possible`. None is told of fewer than three runs, which can say nearly
    anything, and of runs that are all equal, which do not say how far others would be.
    """
    middle = float(np.mean(scores))
    if len(scores) < 2 or min(scores) == max(scores):
        return middle, 0.0, None
    deviation = float(np.std(scores, ddof=1))
    if len(scores) < _FEWEST_RUNS:
        return middle, deviation, None
    half = student(len(scores) - 1) * deviation / math.sqrt(len(scores))
    low, high = max(middle - half, possible.low), min(middle + half, possible.high)
    return middle, deviation, Interval(low=low, high=high)


def difference(first: Sequence[float], second: Sequence[float]) -> Difference:
    """Of the means of runs, with Welch's interval where each side has several, not all equal."""
    return combination([(1.0, first), (-1.0, second)])


def combination(terms: Sequence[tuple[float, Sequence[float]]]) -> Difference:
    """A sum of means of runs, each times a number, with the interval of Welch and Satterthwaite.

    Runs of one term are independent of those of another. There is no interval where a term's runs
    are single, missing or all equal, which do not say how far others would be.
    """
    value = sum(weight * (mean(each) if each else math.nan) for weight, each in terms)
    if min(len(each) for _, each in terms) < 2:
        return Difference(value=value, half_width=math.nan)
    parts = [weight**2 * stdev(each) ** 2 / len(each) for weight, each in terms]
    if not all(parts):
        return Difference(value=value, half_width=math.nan)
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(each) - 1) for part, (_, each) in zip(parts, terms, strict=True)
    )
    return Difference(value=value, half_width=student(freedom) * math.sqrt(sum(parts)))


# Two-sided 95% points of Student's distribution, by degrees of freedom from 1 on.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student(freedom: float) -> float:
    """The two-sided 95% point of Student's distribution, of at least one degree of freedom.

    Between whole degrees it is a little too high: by up to 2.5% from two on, less above.
    """
    # Beyond 30 the first terms of its expansion around the normal's 1.960 hold to 0.0002.
    if freedom > len(_STUDENT):
        return 1.960 + 2.372 / freedom + 2.823 / freedom**2
    below = min(max(1, math.floor(freedom)), len(_STUDENT) - 1)
    low, high = _STUDENT[below - 1], _STUDENT[below]
    # The points are nearly a line over the inverse of the degrees.
    share = (1.0 / below - 1.0 / max(freedom, 1.0)) / (1.0 / below - 1.0 / (below + 1))
    return low + share * (high - low)
