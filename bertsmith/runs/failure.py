"""A run that has ended, and what guessing reaches -> whether fine-tuning has failed, and why.

Small sets and large models fail now and then: the run ends with an answer that never changes, and a
mean over restarts that hides it says nothing. It judges by figures alone, whatever the task.

Source: Devlin et al. 2018, section 4.1; Mosbach et al. 2021.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertsmith.data.labelled import LabelledItems
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.tasks.guessing import best_constant, guessing_loss

_LATE_SHARE = 1.0 / 3.0
_ROUNDING = 1e-9  # scores of equal answers are equal, however their sums were rounded
_AND = ", and "
_BY_LOSS = "training loss "


@dataclass(frozen=True, kw_only=True)
class Guessing:
    """What is reached without reading."""

    score: float | None
    """The best Dev score of an answer that never changes; None where that is not known."""
    loss: float
    """The mean training loss of knowing only how frequent each label is."""
    about: str = ""
    """Which answer has that score, where it is not plain."""

    @staticmethod
    def on(train: LabelledItems, dev: ReadExamples[ExampleT, EncodedT, AnswerT]) -> Guessing:
        """On what a run learns from, and what it is measured on."""
        constant = best_constant(dev.task, dev.examples)
        return Guessing(
            score=constant.score if constant else None,
            loss=guessing_loss(dev.task.head, train),
            about=constant.about if constant else "",
        )

    def is_reached(self, score: float) -> bool:
        """Whether a Dev score is no better than one answer to all."""
        return self.score is not None and score <= self.score + _ROUNDING


def late_loss(rows: Sequence[Mapping[str, object]]) -> float | None:
    """The mean training loss over the last third of the steps; None without steps."""
    losses = [loss for row in rows if isinstance(loss := row.get("loss"), float)]
    late = losses[-max(1, round(len(losses) * _LATE_SHARE)) :]
    return sum(late) / len(late) if late else None


def failure_of(scores: Mapping[str, float], loss: float | None, guessing: Guessing) -> str:
    """Why a run has failed; empty where it has not."""
    told = []
    name, score = next(iter(scores.items()))
    if guessing.is_reached(score):
        about = f", {guessing.about}," if guessing.about else ""
        told.append(f"Dev {name} {score:.4g}; one answer to all{about} has {guessing.score:.4g}")
    if loss is not None and loss >= guessing.loss:
        told.append(f"{_BY_LOSS}{loss:.4g}; guessing by frequency has {guessing.loss:.4g}")
    return _AND.join(told)


def failure_by(
    metric: str, failure: str, scores: Mapping[str, float], reached_by_guessing: float
) -> str:
    """What `failure_of` said, its Dev score replaced by another metric of the same run.

    A run without scores has failed by any metric, and a training loss is of none.
    """
    if not scores:
        return failure
    by_loss = [part for part in failure.split(_AND) if part.startswith(_BY_LOSS)]
    by_score = failure_of(
        {metric: scores[metric]}, None, Guessing(score=reached_by_guessing, loss=math.inf)
    )
    return _AND.join([by_score] * bool(by_score) + by_loss)


def advice_on(scores: Mapping[str, float], loss: float | None, guessing: Guessing) -> str:
    """A line to whoever fine-tuned once: that the run has failed, and what may help; else empty."""
    if not failure_of(scores, loss, guessing):
        return ""
    name, score = next(iter(scores.items()))
    reached = f"guessing by frequency (training loss {loss:.4g})" if loss is not None else ""
    if guessing.is_reached(score):
        about = f", {guessing.about}" if guessing.about else ""
        reached = f"one answer to all{about} ({name} {score:.4g})"
    return f"no better than {reached}: more epochs, another rate or another seed may help"
