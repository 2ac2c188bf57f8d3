"""A run that has ended, and what guessing reaches -> whether fine-tuning has failed, and why.

Small sets and large models fail now and then: the run ends with an answer that never changes, and a
mean over restarts that hides it says nothing. It judges by figures alone, whatever the task.

Source: Devlin et al. 2018, section 4.1; Mosbach et al. 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bertsmith.runs.finetune_start import Start
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.tasks.guessing import constant_score, guessing_loss

_LATE_SHARE = 1.0 / 3.0
_ROUNDING = 1e-9  # scores of equal answers are equal, however their sums were rounded


@dataclass(frozen=True, kw_only=True)
class Guessing:
    """What is reached without reading."""

    score: float | None
    """The best Dev score of an answer that never changes; None where that is not known."""
    loss: float
    """The mean training loss of knowing only how frequent each label is."""

    @staticmethod
    def on(start: Start[ExampleT, EncodedT, AnswerT]) -> Guessing:
        """On the examples of a start."""
        task = start.dev.task
        return Guessing(
            score=constant_score(task, start.dev.examples),
            loss=guessing_loss(task.head, start.train.labelled),
        )


def late_loss(rows: Sequence[Mapping[str, object]]) -> float | None:
    """The mean training loss over the last third of the steps; None without steps."""
    losses = [loss for row in rows if isinstance(loss := row.get("loss"), float)]
    late = losses[-max(1, round(len(losses) * _LATE_SHARE)) :]
    return sum(late) / len(late) if late else None


def failure_of(scores: Mapping[str, float], loss: float | None, guessing: Guessing) -> str:
    """Why a run has failed; empty where it has not."""
    told = []
    if guessing.score is not None:
        name, score = next(iter(scores.items()))
        if score <= guessing.score + _ROUNDING:
            told.append(f"Dev {name} {score:.4g}; one answer to all has {guessing.score:.4g}")
    if loss is not None and loss >= guessing.loss:
        told.append(f"training loss {loss:.4g}; guessing by frequency has {guessing.loss:.4g}")
    return ", and ".join(told)
