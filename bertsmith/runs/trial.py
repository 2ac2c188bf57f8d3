"""A task class of a person's own and its examples -> whether it can learn, answer and score them.

Answers are tried before training with scores that mean nothing: what is wrong with `decode` or
`score` would else be told when an epoch has been learned. The tasks of this package need no trial.

Legend: R scored rows or items, C labels.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.counted import counted
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.tasks.own_faults import failures_named, is_own, require_one_each, wrong_result

_OF_LABELS = ("sequence_classification", "token_classification")
_ONE_LABEL = "single_label_classification"
_NOT_LEARNED = -100
"""The target that PyTorch's cross-entropy passes over."""

_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, less their whole parts, are spread evenly, and none comes twice."""
_PERIOD = 65_537
"""Scores that differ, before they come again; prime, so that rows of any width do."""
# A tenth of what the interval of a model's score takes at the end, since this is waited for.
_EXAMPLES_DRAWN, _MOST_DRAWS = 100_000, 1_000


def require_learnable(examples: ReadExamples[ExampleT, EncodedT, AnswerT], vocab_size: int) -> None:
    """Raises ValueError where an own class made tokens that the model has not, or targets.

    Of targets only labels are known here: spans and numbers are the class's own affair.
    """
    kind, head, labelled = type(examples.task), examples.task.head, examples.labelled
    if not is_own(kind):
        return
    for item in labelled.items:
        _require_below(kind, "token", item.token_ids, vocab_size)
    if head.kind not in _OF_LABELS or head.problem_type not in (None, _ONE_LABEL):
        return
    with failures_named(kind, "encode"):
        found = [(len(each), np.asarray(each)) for each in labelled.targets]
    counts = _num_scored(labelled, head)
    for item_number, ((size, targets), count) in enumerate(zip(found, counts, strict=True)):
        if size != count:
            told = f"{counted(size, 'target')} for item {item_number}"
            raise wrong_result(kind, "encode", told, f"{count:,}")
        _require_below(kind, "label", targets[targets != _NOT_LEARNED], head.num_labels)


def try_out(dev: ReadExamples[ExampleT, EncodedT, AnswerT]) -> None:
    """Raises ValueError, with class and method, where an own class fails to answer or score.

    All of Dev is tried, since a few of its examples may lack a label that `score` counts on, and
    so are draws of them, which may lack it too.
    """
    kind = type(dev.task)
    if not is_own(kind):
        return
    answers = dev.decoded(_scores(dev.labelled, dev.task.head))
    require_one_each(kind, answers, len(dev.examples))
    scores: object = dev.scores(answers)
    if not isinstance(scores, Mapping) or not scores:
        expected = "a number by name, the one that chooses models first"
        raise wrong_result(kind, "score", f"{scores!r:.60}", expected)
    for name, value in scores.items():
        if not isinstance(name, str) or not isinstance(value, int | float):
            found = f"{value!r:.60} for {name!r:.60}"
            raise wrong_result(kind, "score", found, "a float for a name")
    num_draws = min(_MOST_DRAWS, max(1, _EXAMPLES_DRAWN // len(dev.examples)))
    dev.intervals(answers, num_draws)


def _scores(labelled: LabelledItems, head: TaskHeadConfig) -> list[npt.NDArray[np.floating]]:
    """Of each item as many as the head gives, between -1/2 and 1/2: of enough, each label wins."""
    counts = _num_scored(labelled, head)
    spread = (np.arange(_PERIOD) * _GOLDEN % 1.0 - 0.5).astype(np.float32)
    rows = np.resize(spread, (sum(counts), head.num_labels))  # (R, C)
    parts = np.split(rows, np.cumsum(counts)[:-1])
    return [*parts] if head.reads_tokens else [each[0] for each in parts]


def _num_scored(labelled: LabelledItems, head: TaskHeadConfig) -> list[int]:
    """Of each item, how many rows the head scores."""
    if not head.reads_tokens:
        return [1] * len(labelled.items)
    read = [item.token_ids for item in labelled.items]
    return [len(rows) for rows in (read if labelled.rows is None else labelled.rows)]


def _require_below(
    kind: type[object], what: str, numbers: npt.NDArray[np.number], limit: int
) -> None:
    wrong = numbers[(numbers < 0) | (numbers >= limit)]
    if len(wrong):
        raise wrong_result(kind, "encode", f"the {what} {wrong[0]}", f"0 to {limit - 1}")
