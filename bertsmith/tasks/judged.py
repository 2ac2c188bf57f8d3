"""What there is to say of a model's answers beside their scores: values, for any kind of task.

How sure the answers are, which groups of them are better than others, which labels are taken for
which, and the worst of them to read. Nothing is computed or printed here.

Legend: M answers, C labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MOST_MISTAKES = 50


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A wrong answer."""

    place: str
    """Where the example stands."""
    asked: str
    """What was read; in tagging the sentence, the word marked."""
    right: str
    answer: str
    probability: float | None
    """How sure the model was; None where it says a number."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Scores of parts of the examples."""

    name: str
    """What tells the parts apart: `label`, `question word`."""
    metrics: tuple[str, ...]
    rows: tuple[tuple[str, int, tuple[float, ...]], ...]
    """(part, how many there are, its scores)."""


@dataclass(frozen=True, kw_only=True)
class Confusion:
    """Which labels are taken for which."""

    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    """(C, C): how many examples of a gold label (row) got a predicted one (column)."""


@dataclass(frozen=True, kw_only=True)
class Certainty:
    """How sure answers are, and whether they are right."""

    of: str
    """What is answered: `texts`, `words`, `questions`."""
    probabilities: Reals
    """(M,) of each answer given."""
    is_right: Flags
    """(M,)."""


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Predicted numbers beside true ones."""

    predicted: Reals
    """(M,)."""
    right: Reals
    """(M,)."""


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What is known of a model's answers; None or nothing where the kind of task has none."""

    mistakes: tuple[Mistake, ...] = ()
    """The worst first: the surest of the wrong answers, the farthest of numbers."""
    num_mistakes: int = 0
    """All of them."""
    groups: tuple[Groups, ...] = ()
    certainty: Certainty | None = None
    confusion: Confusion | None = None
    numbers: Numbers | None = None
