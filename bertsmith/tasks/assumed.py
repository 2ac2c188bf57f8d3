"""A task head of which nobody says how its task reads examples -> a task, and what was assumed.

For models of the Hub: their config names kind and labels, and nothing else. And a stored task ->
the same, as far as the model at hand can follow it. It reads no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bertsmith.model.task import TaskHeadConfig, unnamed_labels
from bertsmith.tasks.classify import LabelScheme, Problem
from bertsmith.tasks.entities import OUTSIDE, split_tag
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.tag import TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import (
    AnyTask,
    Classification,
    MultipleChoice,
    SpanAnswering,
    Tagging,
    Task,
)

_LONGEST = 512
_LONGEST_WITH_PASSAGE = 384
_SPECIAL_AROUND_PASSAGE = 3


def assumed_task(head: TaskHeadConfig, limit: int) -> tuple[AnyTask, str]:
    """The task, for a model that reads `limit` tokens; and a line on what of it is a guess."""
    longest = min(_LONGEST, limit)
    match head.kind:
        case "sequence_classification":
            problem = _problem(head)
            scheme = LabelScheme(("score",) if problem == "regression" else head.labels, problem)
            told = f"{_WORDS[problem]}, texts of at most {longest} tokens"
            return Classification(scheme=scheme, max_tokens=longest), _told(head, told)
        case "multiple_choice":
            told = f"a text and what may follow it, of at most {longest} tokens"
            return MultipleChoice(max_tokens=longest), _told(head, told)
        case "token_classification":
            of_entities = _are_of_entities(head.labels)
            told = "entities" if of_entities else "a tag for each word"
            return Tagging(
                scheme=TagScheme(head.labels, is_of_entities=of_entities),
                config=TagConfig(context="sentence", max_tokens=longest),
            ), _told(head, f"{told}, each text read alone")
        case "question_answering":
            config = _passages(limit)
            told = (
                f"every question has an answer, windows of {config.max_tokens} tokens, every "
                f"{config.doc_stride}"
            )
            return SpanAnswering(config=config), _told(head, told)


def fitted(task: AnyTask, limit: int) -> AnyTask:
    """The task with sequences of at most `limit` tokens.

    Raises ValueError for windows that could then not move.
    """
    if isinstance(task, Classification | MultipleChoice):
        return replace(task, max_tokens=min(task.max_tokens, limit))
    longest = min(task.config.max_tokens, limit)
    if isinstance(task, Tagging):
        return replace(task, config=replace(task.config, max_tokens=longest))
    return replace(task, config=replace(task.config, max_tokens=longest))


def require_same_head(task: Task[Any, Any, Any], head: TaskHeadConfig, place: str) -> None:
    """Raises ValueError for a task that belongs to another head: of another kind, or labels."""
    wanted = task.head
    is_unnamed = head.labels == unnamed_labels(head.num_labels)
    has_own_names = head.kind in ("sequence_classification", "token_classification")
    is_same = head.num_labels == wanted.num_labels and (
        is_unnamed or not has_own_names or head.labels == wanted.labels
    )
    if head.kind != wanted.kind or not is_same:
        raise ValueError(
            f"{place} is of {wanted.kind} with the labels {', '.join(wanted.labels):.100}, and the "
            f"model's head of {head.kind} with {', '.join(head.labels):.100}: they do not belong "
            f"together"
        )


_WORDS: dict[Problem, str] = {
    "single_label": "one label a text",
    "multi_label": "any number of labels a text",
    "regression": "a number",
}


def _problem(head: TaskHeadConfig) -> Problem:
    """As `transformers` decides where the config says nothing: by the number of scores.

    Raises ValueError for a regression of several numbers.
    """
    match head.problem_type:
        case "regression":
            if head.num_labels > 1:
                raise ValueError(
                    f"the head gives {head.num_labels} numbers a text (problem_type regression), "
                    f"and one is expected"
                )
            return "regression"
        case "multi_label_classification":
            return "multi_label"
        case "single_label_classification":
            return "single_label"
        case None:
            return "regression" if head.num_labels == 1 else "single_label"


def _are_of_entities(labels: Sequence[str]) -> bool:
    try:
        kinds = {split_tag(label)[1] for label in labels}
    except ValueError:
        return False
    return OUTSIDE in labels and kinds != {""}


def _passages(limit: int) -> SquadConfig:
    """The paper's windows, or smaller ones of the same shape."""
    longest = min(_LONGEST_WITH_PASSAGE, limit)
    default = SquadConfig()
    question = min(default.max_question_tokens, longest // 4)
    room = longest - question - _SPECIAL_AROUND_PASSAGE
    return SquadConfig(
        max_tokens=longest,
        max_question_tokens=question,
        doc_stride=min(default.doc_stride, max(1, room // 2)),
    )


def _told(head: TaskHeadConfig, told: str) -> str:
    return (
        f"no task.json says how examples are read; assumed of the head for "
        f"{head.kind.replace('_', ' ')}: {told}"
    )
