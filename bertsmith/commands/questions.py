"""Arguments, files and the pipe -> questions, checked and in windows, for a command that answers.

Input streams through window by window, so that a file may be larger than memory. It does not know
what the questions are.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Generic, TextIO, TypeVar

Question = TypeVar("Question")

_WINDOW = 4096
_STANDARD_INPUT = Path("-")


class Questions(Generic[Question]):
    """Arguments, then files or the pipe, as checked questions; counts what it passes over.

    `asked` are (place, text); `checked` makes a question of a text or raises ValueError.
    """

    def __init__(
        self,
        asked: Sequence[tuple[str, str]],
        files: Sequence[Path],
        checked: Callable[[str], Question],
    ) -> None:
        self._asked = asked
        self._files = files if files or asked else (_STANDARD_INPUT,)
        self._checked = checked
        self._num_asked = self._num_blank = 0

    def check(self) -> None:
        """Reads arguments and files once, so that a mistake in them shows before the long work."""
        for _ in self._read(list(filter(_can_be_read_twice, self._files))):
            pass

    def windows(self) -> Iterator[list[Question]]:
        """Lists of questions; one by one where a person is typing them."""
        typed = _STANDARD_INPUT in self._files and sys.stdin.isatty()
        questions = self._read(self._files)
        while window := list(itertools.islice(questions, 1 if typed else _WINDOW)):
            yield window

    def report(self, num_cut: int, limit: int, consequence: str) -> None:
        """Says on standard error what was not read."""
        if num_cut:
            print(
                f"{num_cut:,} of {self._num_asked:,} were longer than the {limit} tokens that the "
                f"model reads: {consequence}",
                file=sys.stderr,
            )
        if self._num_blank:
            print(f"blank lines passed over: {self._num_blank:,}", file=sys.stderr)

    def _read(self, files: Iterable[Path]) -> Iterator[Question]:
        self._num_asked = self._num_blank = 0
        for place, text in itertools.chain(self._asked, *map(_lines, files)):
            if not text.strip():
                self._num_blank += 1
                continue
            self._num_asked += 1
            try:
                yield self._checked(text)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error


def _can_be_read_twice(file: Path) -> bool:
    """Not so the pipes `-` and `<(command)`; a missing file counts, to be missed at once."""
    return file != _STANDARD_INPUT and (file.is_file() or not file.exists())


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """(place, line) of a file or of standard input."""
    name = "standard input" if file == _STANDARD_INPUT else str(file)
    with _opened(file) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                yield f"{name}:{number}", line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise ValueError(f"{name} is not UTF-8 text: {error}") from error


def _opened(file: Path) -> contextlib.AbstractContextManager[TextIO]:
    if file == _STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin)
    return file.open(encoding="utf-8")
