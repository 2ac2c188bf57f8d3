"""Answers and gold answers -> scores: the official metrics of GLUE, and what they are worth.

Every score is a plain float, in [0, 1] or [-1, 1] as its formula has it. This file knows no tasks.

Source: Wang et al. 2019 (GLUE), section 3; Matthews 1975; Guo et al. 2017 for calibration.

Legend: N examples, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.randomness import Stream, integers

Numbers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

Scorer = Callable[[Numbers], dict[str, float]]
"""Numbers of answered examples, which may repeat -> the metrics of these examples."""

_CALIBRATION_BINS = 10
_ROUNDING = 1e-9
"""How far sums of the same numbers in another order may lie apart."""


@dataclass(frozen=True, kw_only=True)
class Interval:
    """What a score would be on other examples of the same kind, 95 times in 100."""

    low: float
    high: float


def accuracy(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """The share of equal labels."""
    return float(np.mean(np.asarray(predicted) == np.asarray(gold)))


def binary_f1(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """F1 of class 1; 0 where neither side has one (GLUE: MRPC, QQP)."""
    is_predicted, is_gold = np.asarray(predicted) == 1, np.asarray(gold) == 1
    found = is_predicted.sum() + is_gold.sum()
    return float(2 * (is_predicted & is_gold).sum() / found) if found else 0.0


def macro_f1(predicted: npt.ArrayLike, gold: npt.ArrayLike, num_classes: int) -> float:
    """The mean of F1 over the classes that stand on either side, as scikit-learn has it."""
    table = confusion(predicted, gold, num_classes)
    right, found = np.diagonal(table), table.sum(axis=0) + table.sum(axis=1)
    stands = found > 0
    return float(np.mean(2 * right[stands] / found[stands]))


def matthews(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """Matthews' correlation of labels of any number of classes; 0 where one side is constant."""
    classes, numbers = np.unique([np.asarray(predicted), np.asarray(gold)], return_inverse=True)
    first, second = numbers.reshape(2, -1)
    table = confusion(first, second, len(classes)).astype(np.float64)
    of_gold, of_predicted, total = table.sum(axis=1), table.sum(axis=0), table.sum()
    covariance = np.trace(table) * total - of_gold @ of_predicted
    spread = math.sqrt((total**2 - of_gold @ of_gold) * (total**2 - of_predicted @ of_predicted))
    return float(covariance / spread) if spread else 0.0


def pearson(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """The linear correlation; 0 where one side is constant."""
    first, second = _centred(predicted), _centred(gold)
    spread = math.sqrt(float(first @ first) * float(second @ second))
    return float(first @ second / spread) if spread else 0.0


def spearman(predicted: npt.ArrayLike, gold: npt.ArrayLike) -> float:
    """The correlation of ranks, ties at their mean rank; 0 where one side is constant."""
    return pearson(_ranks(predicted), _ranks(gold))


def confusion(predicted: npt.ArrayLike, gold: npt.ArrayLike, num_classes: int) -> Numbers:
    """(C, C): how many examples of a gold class (row) got a predicted class (column)."""
    cells = np.asarray(gold, np.int64) * num_classes + np.asarray(predicted, np.int64)
    return np.bincount(cells, minlength=num_classes**2).reshape(num_classes, num_classes)


@dataclass(frozen=True, kw_only=True)
class Reliability:
    """Answers in ten equal bins of how sure they are; (10,) each, 0 for an empty bin."""

    counts: Numbers
    sure: Reals
    """The mean probability of a bin's answers."""
    right: Reals
    """The share of them that is right."""

    @property
    def centres(self) -> Reals:
        """The middle of each bin."""
        found: Reals = (np.arange(len(self.counts)) + 0.5) / len(self.counts)
        return found


def reliability(confidence: npt.ArrayLike, is_right: npt.ArrayLike) -> Reliability:
    """How sure and how right the answers are, the less sure ones apart from the surer."""
    sure, right = np.asarray(confidence, np.float64), np.asarray(is_right, np.float64)
    bins = np.minimum((sure * _CALIBRATION_BINS).astype(np.int64), _CALIBRATION_BINS - 1)
    counts = np.bincount(bins, minlength=_CALIBRATION_BINS)
    sums = (np.bincount(bins, each, _CALIBRATION_BINS) for each in (sure, right))
    means = [each / np.maximum(1, counts) for each in sums]
    return Reliability(counts=counts, sure=means[0], right=means[1])


def calibration_error(confidence: npt.ArrayLike, is_right: npt.ArrayLike) -> float:
    """The mean distance, over ten equal bins, between how sure the answers are and how right."""
    bins = reliability(confidence, is_right)
    return float((bins.counts * np.abs(bins.right - bins.sure)).sum() / bins.counts.sum())


def intervals(
    score: Callable[[Numbers], Mapping[str, float]],
    num_examples: int,
    num_draws: int,
) -> dict[str, Interval | None]:
    """The middle 95% of each score by name over draws of the examples with replacement.

    `score` takes the numbers of the drawn examples. None is told where all draws score alike, as
    those of one example do, or of answers that are all right: they do not say how far other
    examples would be. A correlation or an F1 of right answers is no exception for the few draws of
    one class, which score 0; where they are more than a few, as of a handful of examples, they are
    told: other examples could be of one class too. A score that a draw has not (of a kind of entity
    that is not in it) comes of the other draws.

    Draws repeat some examples and lack others, so a score that repetition itself moves, such as a
    count of different words, can lie beyond all of them: the interval then reaches to the score,
    which is known to be possible.
    """
    places = np.arange(num_examples)
    whole = score(places)
    found = [
        score(integers(num_examples, 0, Stream.RESAMPLE, draw, places)) for draw in range(num_draws)
    ]
    return {
        name: _middle([each[name] for each in found if name in each], value)
        for name, value in whole.items()
    }


def _middle(drawn: Sequence[float], value: float) -> Interval | None:
    """95% of the drawn scores, and that of all examples; None of equal ones, but for rounding."""
    if not drawn:
        return None
    low, high = np.quantile(drawn, (0.025, 0.975))
    if math.isclose(low, high, rel_tol=_ROUNDING, abs_tol=_ROUNDING):
        return None
    return Interval(low=min(float(low), value), high=max(float(high), value))


def _centred(values: npt.ArrayLike) -> Reals:
    numbers = np.asarray(values, np.float64)
    centred: Reals = numbers - numbers.mean()
    return centred


def _ranks(values: npt.ArrayLike) -> Reals:
    _, numbers, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[numbers]
