"""The scores of several models on the same items -> the scores of all of them as one.

Probabilities are averaged: of labels, of each label by itself, of a row's tags, of a question's
choices. Of a regression its numbers are; of spans the start and end scores, which ranks spans as
their sum over the models does, and keeps the scale of a threshold. What comes out is scores again,
to be decoded as one model's are.

Source: Devlin et al. 2018, section 4.2, for ensembles.

Legend: K models, R rows scored in an item, C labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig

FloatArray = npt.NDArray[np.floating]
Reals = npt.NDArray[np.float64]


def averaged(
    head: TaskHeadConfig, labelled: LabelledItems, of_models: Sequence[Sequence[FloatArray]]
) -> list[FloatArray]:
    """Of each item its scores, of the K models' scores of each item: (C,) or (R, C) as they are."""
    if head.kind == "multiple_choice":
        return _averaged_choices(labelled, of_models)
    return [
        _averaged_item(head, np.stack([each.astype(np.float64) for each in of_item]))
        for of_item in zip(*of_models, strict=True)
    ]


def _averaged_item(head: TaskHeadConfig, scores: Reals) -> Reals:
    """(K, ..., C) -> (..., C)."""
    if head.kind == "question_answering" or head.problem_type == "regression":
        mean: Reals = scores.mean(axis=0)
        return mean
    if head.problem_type == "multi_label_classification":
        # The logit of the mean share, without forming shares that round to 0 or 1.
        zeros = np.zeros_like(scores)
        yes, no = (-np.logaddexp(zeros, sign * scores) for sign in (-1.0, 1.0))
        odds: Reals = np.logaddexp.reduce(yes, axis=0) - np.logaddexp.reduce(no, axis=0)
        return odds
    return _log_mean(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True))


def _averaged_choices(
    labelled: LabelledItems, of_models: Sequence[Sequence[FloatArray]]
) -> list[FloatArray]:
    """The softmax goes over the items of a question."""
    scores = np.array([[float(score[0]) for score in scores] for scores in of_models])  # (K, N)
    starts = np.flatnonzero(np.diff(labelled.groups, prepend=-1))
    totals = np.logaddexp.reduceat(scores, starts, axis=1)  # (K, G)
    return list(_log_mean(scores - totals[:, labelled.groups])[:, None])


def _log_mean(logs: Reals) -> Reals:
    """The logarithm of the mean of what has these logarithms, over the first axis."""
    mean: Reals = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    return mean
