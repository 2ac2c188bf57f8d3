"""Windows of questions -> the same, while a bar shows how much of them is answered.

The bar stands on standard error, for files, whose end is known; where the answers themselves run
over the terminal, they are the progress. Of the questions it knows their texts alone, which the
model's tally looks at.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Console

from bertsmith.commands.asked_entry import Entry
from bertsmith.commands.questions import WINDOW
from bertsmith.commands.stages import Stage
from bertsmith.tasks.asked import texts_of

if TYPE_CHECKING:
    from bertsmith.inference import Predictor

Question = TypeVar("Question")


class Windowed(Protocol[Question]):
    """Questions that are read window by window."""

    @property
    def num_bytes(self) -> int:
        """Bytes to be read; 0 where that cannot be known."""

    @property
    def bytes_read(self) -> int:
        """Of these, up to the window in hand."""

    def windows(self, size: int) -> Iterator[list[Question]]:
        """Lists of about `size` questions."""


@contextlib.contextmanager
def watched(
    questions: Windowed[Question], predictor: Predictor, size: int = WINDOW
) -> Iterator[Iterator[list[Question]]]:
    """The questions' windows; each is to be answered by one call of the predictor."""
    windows = _looked_at(questions.windows(size), predictor)
    if sys.stdout.isatty() or not questions.num_bytes:
        yield windows
        return
    with Stage(Console(stderr=True), "predict", "bytes", questions.num_bytes) as stage:
        yield _shown(questions, windows, predictor, stage)


def tell_decomposed(predictor: Predictor) -> None:
    """Says on standard error where Hangul is unknown because it is decomposed."""
    if note := predictor.tally.decomposed("that were read"):
        print(f"note: {note}", file=sys.stderr)


def tell_unknown(predictor: Predictor) -> None:
    """Says on standard error how much of what was read the model does not know, if it is much."""
    for note in predictor.tally.notes("that were read"):
        print(f"note: {note}", file=sys.stderr)


def _looked_at(windows: Iterator[list[Question]], predictor: Predictor) -> Iterator[list[Question]]:
    for window in windows:
        for question in window:
            predictor.tally.look_at(_texts(question))
        yield window


def _texts(question: object) -> Sequence[str]:
    """Of a text, a pair whose second may be none, or a row."""
    match question:
        case str():
            return (question,)
        case tuple():
            return [side for side in question if isinstance(side, str)]
        case Entry() if question.asked is not None:
            return texts_of(question.asked)
    return ()


def _shown(
    questions: Windowed[Question],
    windows: Iterator[list[Question]],
    predictor: Predictor,
    stage: Stage,
) -> Iterator[list[Question]]:
    num_bytes = num_asked = 0
    for window in windows:
        of_window = questions.bytes_read - num_bytes

        def show(
            share: float,
            start: tuple[int, int] = (num_bytes, num_asked),
            span: tuple[int, int] = (of_window, len(window)),
        ) -> None:
            (first, before), (num, more) = start, span
            stage.reach(first + int(share * num), f"{before + int(share * more):,} answered")

        predictor.watch = show
        yield window
        num_bytes, num_asked = questions.bytes_read, num_asked + len(window)
