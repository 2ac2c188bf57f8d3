"""Labelled examples -> what can be reached on them without reading: a score, and a loss.

An answer that never changes has the score; a model that knows how frequent each label is, and
nothing of the text, has the loss. A run that is no better has learned nothing. It knows no runs.

Source: Devlin et al. 2018, section 4.1, and Mosbach et al. 2021, on fine-tuning that fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.tasks.choose import ChoiceAnswer
from bertsmith.tasks.classify import TextAnswer
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging, Task

_NOTHING = Candidate(text="", start=0, probability=1.0, start_score=0.0, end_score=0.0)


def constant_score(
    task: Task[Any, Any, Any], examples: Sequence[Any], metric: str = ""
) -> float | None:
    """A metric, by default the task's first, of the best answer that is the same to every example.

    A correlation with what never changes counts as 0. None for a kind of task that is not known.
    """
    found = [task.score(examples, answers) for answers in _constant_answers(task, examples)]
    return max((each[metric or next(iter(each))] for each in found), default=None)


def guessing_loss(head: TaskHeadConfig, labelled: LabelledItems) -> float:
    """The mean loss, as in training, of a model that does not look at the text.

    Of labels and tags the entropy of how often each occurs, of a number its variance, of choices
    and spans that of all being equally likely.
    """
    if head.kind == "question_answering":
        return float(np.mean([math.log(len(item.token_ids)) for item in labelled.items]))
    if head.kind == "multiple_choice":
        return float(np.log(np.bincount(labelled.groups)).mean())
    targets = np.concatenate(labelled.targets).astype(np.float64)
    if head.problem_type == "regression":
        return float(targets.var())
    if head.problem_type == "multi_label_classification":
        shares = targets.reshape(-1, head.num_labels).mean(axis=0)  # (C,)
        return float(_entropies(np.stack([shares, 1.0 - shares])).mean())
    counts = np.bincount(targets.astype(np.int64), minlength=head.num_labels)
    return float(_entropies(counts / counts.sum()))


def _constant_answers(task: Task[Any, Any, Any], examples: Sequence[Any]) -> Iterator[list[Any]]:
    """Of every answer that could be the same to all examples, the answers."""
    count = len(examples)
    if isinstance(task, Classification):
        for labels in _constant_labels(task):
            yield [TextAnswer(labels=labels, scores=(0.0,))] * count
    elif isinstance(task, MultipleChoice):
        for choice in range(max(len(example.choices) for example in examples)):
            yield [ChoiceAnswer(choice=choice, probabilities=())] * count
    elif isinstance(task, Tagging):
        for label in task.scheme.labels:
            yield [[label] * len(example.words) for example in examples]
    elif isinstance(task, SpanAnswering):
        none = FoundAnswer(
            key="", text="", best=_NOTHING, null_odds=math.inf, candidates=(_NOTHING,)
        )
        yield [none] * count


def _constant_labels(task: Classification) -> list[tuple[str, ...]]:
    names = task.scheme.names
    single: list[tuple[str, ...]] = [(name,) for name in names]
    return [(), *single, names] if task.scheme.problem == "multi_label" else single


def _entropies(shares: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, Any]:
    """Of each column of shares, in nats."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(axis=0))
