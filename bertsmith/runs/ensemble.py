"""Several fine-tuned models and the same examples -> the scores that they reach as one.

Models are read one after the other; only what they say of the examples is kept. Each must read the
examples as the first does, label for label and token for token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bertsmith.model.task import TaskHeadConfig
from bertsmith.runs.learning_set import ReadExamples, fingerprint
from bertsmith.tasks.averaging import averaged

ItemScores = Sequence[npt.NDArray[np.floating]]


@dataclass(frozen=True, kw_only=True)
class Member:
    """A model's examples as it reads them, and what it says of each item."""

    name: str
    examples: ReadExamples[Any, Any, Any]
    item_scores: ItemScores


def ensemble_answers(members: Sequence[Member]) -> list[Any]:
    """What the members say together of each example, as the task of the first decodes it."""
    first = members[0].examples
    scores = averaged(first.task.head, first.labelled, [each.item_scores for each in members])
    return first.decoded(scores)


def require_fit(name: str, examples: ReadExamples[Any, Any, Any], first: Member) -> None:
    """Raises ValueError, with the reason, for a model that cannot be averaged with the first."""
    head, wanted = examples.task.head, first.examples.task.head
    told = ""
    if head.kind != wanted.kind or head.problem_type != wanted.problem_type:
        told = f"it answers {_kind(head)}, and {first.name} {_kind(wanted)}"
    elif head.labels != wanted.labels:
        labels, others = (f"{', '.join(each.labels):.100}" for each in (head, wanted))
        told = f"its labels are {labels}, and those of {first.name} {others}"
    elif fingerprint(examples.labelled) != fingerprint(first.examples.labelled):
        told = (
            f"it reads the examples as other tokens than {first.name} does: another vocabulary, or "
            f"other lengths and windows"
        )
    if told:
        raise ValueError(f"{name} is no part of this ensemble: {told}; score it by itself")


def differing_task(name: str, task: object, first: Member) -> tuple[str, ...]:
    """A note where a member's answers would be chosen or scored otherwise than the first one's."""
    if task == first.examples.task:
        return ()
    return (f"answers are chosen as the task of {first.name} says; that of {name} differs",)


def _kind(head: TaskHeadConfig) -> str:
    return str(head.problem_type or head.kind).replace("_", " ")
