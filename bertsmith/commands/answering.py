"""Windows of questions -> the same, while a bar shows how much of them is answered.

The bar stands on standard error, for files, whose end is known; where the answers themselves run
over the terminal, they are the progress. It does not know what the questions are.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from rich.console import Console

from bertsmith.commands.questions import WINDOW
from bertsmith.commands.stages import Stage

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
    if sys.stdout.isatty() or not questions.num_bytes:
        yield questions.windows(size)
        return
    with Stage(Console(stderr=True), "predict", "bytes", questions.num_bytes) as stage:
        yield _shown(questions, predictor, size, stage)


def tell_unknown(predictor: Predictor) -> None:
    """Says on standard error how much of what was read the model does not know, if it is much."""
    for note in predictor.tally.notes("that were read"):
        print(f"note: {note}", file=sys.stderr)


def _shown(
    questions: Windowed[Question], predictor: Predictor, size: int, stage: Stage
) -> Iterator[list[Question]]:
    num_bytes = num_asked = 0
    for window in questions.windows(size):
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
