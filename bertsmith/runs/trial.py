"""A task class of a person's own and its Dev examples -> whether it can answer and score them.

Tried before training with scores that mean nothing: what is wrong with `decode` or `score` would
else be told when an epoch has been learned. The tasks of this package need no trial.

Legend: R scored rows or items, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized

import numpy as np
import numpy.typing as npt

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.counted import counted
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.tasks.imported import is_own, wrong_result

_GOLDEN = 0.618
"""Multiples of it, less their whole parts, are spread evenly."""


def try_out(dev: ReadExamples[ExampleT, EncodedT, AnswerT]) -> None:
    """Raises ValueError, with class and method, where an own class fails to answer or score.

    All of Dev is tried, since a few of its examples may lack a label that `score` counts on.
    """
    kind = type(dev.task)
    if not is_own(kind):
        return
    answers = dev.decoded(_scores(dev.labelled, dev.task.head))
    _require_one_each(kind, answers, len(dev.examples))
    scores: object = dev.scores(answers)
    if not isinstance(scores, Mapping) or not scores:
        expected = "a number by name, the one that chooses models first"
        raise wrong_result(kind, "score", f"{scores!r:.60}", expected)
    for name, value in scores.items():
        if not isinstance(name, str) or not isinstance(value, int | float):
            found = f"{value!r:.60} for {name!r:.60}"
            raise wrong_result(kind, "score", found, "a float for a name")


def _require_one_each(kind: type[object], answers: object, count: int) -> None:
    if not isinstance(answers, Sized):
        expected = f"a list with an answer to each of the {count:,} Dev examples"
        raise wrong_result(kind, "decode", type(answers).__name__, expected)
    if len(answers) != count:
        found = f"{counted(len(answers), 'answer')} to the {count:,} Dev examples"
        raise wrong_result(kind, "decode", found, "one to each")


def _scores(labelled: LabelledItems, head: TaskHeadConfig) -> list[npt.NDArray[np.floating]]:
    """Of each item as many as the head gives, between -1/2 and 1/2: each label wins somewhere."""
    counts = [1] * len(labelled.items)
    if head.reads_tokens:
        read = [item.token_ids for item in labelled.items]
        counts = [len(rows) for rows in (read if labelled.rows is None else labelled.rows)]
    spread = np.arange(sum(counts) * head.num_labels) * _GOLDEN % 1.0 - 0.5
    rows = spread.astype(np.float32).reshape(-1, head.num_labels)  # (R, C)
    parts = np.split(rows, np.cumsum(counts)[:-1])
    return [*parts] if head.reads_tokens else [each[0] for each in parts]
