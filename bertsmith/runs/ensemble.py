"""Several fine-tuned models and the same examples -> the scores that they reach as one.

Models are read one after the other; only what they say of the examples is kept. Each must read the
examples as the first does, label for label and token for token, and choose among spans as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from bertsmith.model.task import TaskHeadConfig
from bertsmith.runs.learning_set import ReadExamples, fingerprint
from bertsmith.tasks.averaging import averaged
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.task import SpanAnswering, Task

ItemScores = Sequence[npt.NDArray[np.floating]]

_CHOOSING = ("with_null", "max_answer_tokens", "num_best")
"""What of a SquadConfig decides, beside the threshold, which answers are given and listed."""


@dataclass(frozen=True, kw_only=True)
class Member:
    """A model's examples as it reads them, and what it says of each item."""

    name: str
    examples: ReadExamples[Any, Any, Any]
    item_scores: ItemScores


def as_one(members: Sequence[Member]) -> Member:
    """What the members say together; a threshold of no answer is the mean of their own."""
    first = members[0].examples
    if not members[1:]:
        return members[0]
    task = _joint_task([each.examples.task for each in members])
    return Member(
        name=f"the ensemble of {len(members)}",
        examples=replace(first, task=task),
        item_scores=averaged(task.head, first.labelled, [each.item_scores for each in members]),
    )


def require_fit(member: Member, first: Member) -> None:
    """Raises ValueError, with the reason, for what cannot be averaged with the first."""
    head, wanted = member.examples.task.head, first.examples.task.head
    told = ""
    if head.kind != wanted.kind or head.problem_type != wanted.problem_type:
        told = f"it answers {_kind(head)}, and {first.name} {_kind(wanted)}"
    elif head.labels != wanted.labels:
        labels, others = (f"{', '.join(each.labels):.100}" for each in (head, wanted))
        told = f"its labels are {labels}, and those of {first.name} {others}"
    elif fingerprint(member.examples.labelled) != fingerprint(first.examples.labelled):
        told = (
            f"it reads the examples as other tokens than {first.name} does: another vocabulary, or "
            f"other lengths and windows"
        )
    elif differing := _differing(member.examples.task, first.examples.task):
        its, others = differing
        told = f"it chooses answers by {its}, and {first.name} by {others}"
    if told:
        raise ValueError(f"{member.name} is no part of this ensemble: {told}; score it by itself")


def _joint_task(tasks: Sequence[Task[Any, Any, Any]]) -> Task[Any, Any, Any]:
    """The first one's, where each has its own threshold of no answer at their mean."""
    first = tasks[0]
    if not isinstance(first, SpanAnswering):
        return first
    thresholds = [each.config.null_threshold for each in tasks if isinstance(each, SpanAnswering)]
    mean = sum(thresholds) / len(thresholds)
    return replace(first, config=replace(first.config, null_threshold=mean))


def _differing(task: Task[Any, Any, Any], wanted: Task[Any, Any, Any]) -> tuple[str, str] | None:
    """The values by which both choose answers, where they are not the same."""
    if not isinstance(task, SpanAnswering) or not isinstance(wanted, SpanAnswering):
        return None
    its, others = _choosing(task.config), _choosing(wanted.config)
    return (its, others) if its != others else None


def _choosing(config: SquadConfig) -> str:
    return ", ".join(f"{name} {getattr(config, name)}" for name in _CHOOSING)


def _kind(head: TaskHeadConfig) -> str:
    return str(head.problem_type or head.kind).replace("_", " ")
