"""Scores of several runs -> their mean with an interval, and how far two means lie apart.

Runs differ by their seeds; what the intervals say is how far other seeds would be. This file knows
no tasks and no metrics.

Source: Student 1908; Welch 1947, for kinds of runs with deviations of their own; Dunn 1961
(Bonferroni's inequality, for several at once).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, stdev

import numpy as np

from bertsmith.tasks.metrics import Interval

_NUM_ANGLES = 20_001
_FEWEST_RUNS = 3  # of two the interval of a mean is 18 deviations wide


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Of two means, or of more."""

    value: float
    half_width: float
    """Of its 95% interval; NaN where deviations are unknown."""
    freedom: float = math.nan
    """Degrees of freedom of that interval."""

    def half_width_of(self, number: int) -> float:
        """Of an interval that so many differences lie in with 95% at once (Bonferroni)."""
        if math.isnan(self.freedom):
            return self.half_width
        return self.half_width * student(self.freedom, 0.05 / number) / student(self.freedom)


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
    half_width = student(freedom) * math.sqrt(sum(parts))
    return Difference(value=value, half_width=half_width, freedom=freedom)


@functools.lru_cache(maxsize=1024)
def student(freedom: float, chance: float = 0.05) -> float:
    """What Student's variable is beyond, on either side, with that chance.

    Right to 2 in 10,000 from 1.5 to 100,000 degrees of freedom, for chances down to 0.004.

    With x = sqrt(freedom) tan(angle) its density is that of cos(angle)^(freedom - 1): the point is
    read off the area below it. `freedom`: of at least one degree, whole or not.
    """
    angles = np.linspace(0.0, np.pi / 2, _NUM_ANGLES)
    heights = np.cos(angles) ** (max(freedom, 1.0) - 1.0)
    areas = np.concatenate([[0.0], np.cumsum(heights[1:] + heights[:-1])])
    angle = np.interp((1.0 - chance) * areas[-1], areas, angles)
    return float(math.sqrt(max(freedom, 1.0)) * np.tan(angle))
