"""A task and the name of a score -> the lowest and the highest that the score can be.

Of a person's own task nothing is known but what its scores are called.
"""

from __future__ import annotations

import math
from typing import Any

from bertsmith.tasks.metrics import Interval
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging, Task

_CORRELATIONS = ("matthews", "pearson", "spearman")


def score_range(task: Task[Any, Any, Any], name: str) -> Interval:
    """The range of a score; infinite for a kind of task that is not known."""
    if isinstance(task, SpanAnswering):
        return Interval(low=0.0, high=100.0)
    if isinstance(task, Classification) and name in _CORRELATIONS:
        return Interval(low=-1.0, high=1.0)
    if isinstance(task, Classification | MultipleChoice | Tagging):
        return Interval(low=0.0, high=1.0)
    return Interval(low=-math.inf, high=math.inf)
