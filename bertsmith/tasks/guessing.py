"""Labelled examples -> what can be reached on them without reading: a score, and a loss.

An answer that never changes has the score: one label to all, or the words at one place of every
passage. A model that knows how frequent each label is, and nothing of the text, has the loss. A run
that is no better has learned nothing. It knows no runs.

Source: Devlin et al. 2018, section 4.1, and Mosbach et al. 2021, on fine-tuning that fails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.choose import ChoiceAnswer
from bertsmith.tasks.classify import TextAnswer
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.squad_places import Place, best_places
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging, Task


class Constant(NamedTuple):
    """An answer that is the same to every example."""

    score: float
    about: str
    """Which answer it is, where that is not plain: a place of every passage; else empty."""


def best_constant(
    task: Task[Any, Any, Any], examples: Sequence[Any], metric: str = ""
) -> Constant | None:
    """The one with the best score by a metric, by default the task's first.

    A correlation with what never changes counts as 0. Of spans the places of `squad_places` are
    tried, which takes about 4 s of SQuAD's 10,000 questions, and some three times that where every
    passage has one. None for a kind of task that is not known.
    """
    found = []
    for about, answers in _constant_answers(task, examples):
        scores = task.score(examples, answers)
        found.append(Constant(scores[metric or next(iter(scores))], about))
    return max(found, key=lambda each: each.score, default=None)


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


def _constant_answers(
    task: Task[Any, Any, Any], examples: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    """Answers that could be the same to all examples, none that would be best left out."""
    count = len(examples)
    if isinstance(task, Classification):
        for labels in _constant_labels(task):
            yield "", [TextAnswer(labels=labels, scores=(0.0,))] * count
    elif isinstance(task, MultipleChoice):
        for choice in range(max(len(example.choices) for example in examples)):
            yield "", [ChoiceAnswer(choice=choice, probabilities=())] * count
    elif isinstance(task, Tagging):
        for label in task.scheme.labels:
            yield "", [[label] * len(example.words) for example in examples]
    elif isinstance(task, SpanAnswering):
        yield "", [_span("")] * count
        for place in best_places(examples, task.version):
            yield str(place), _spans(place, examples)


def _spans(place: Place, questions: Sequence[Question]) -> list[FoundAnswer]:
    """The words at one place of each question's passage."""
    return [_span(" ".join(place.words(each.passage.split()))) for each in questions]


def _span(text: str) -> FoundAnswer:
    best = Candidate(text=text, start=0, probability=1.0, start_score=0.0, end_score=0.0)
    return FoundAnswer(key="", text=text, best=best, null_odds=0.0, candidates=(best,))


def _constant_labels(task: Classification) -> list[tuple[str, ...]]:
    names = task.scheme.names
    single: list[tuple[str, ...]] = [(name,) for name in names]
    return [(), *single, names] if task.scheme.problem == "multi_label" else single


def _entropies(shares: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, Any]:
    """Of each column of shares, in nats."""
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return np.asarray(-(shares * logs).sum(axis=0))
