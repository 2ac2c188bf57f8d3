"""Arguments, files and the pipe -> questions, checked and in windows, for a command that answers.

Input streams through window by window, so that a file may be larger than memory. Files, compressed
or not, and the pipe are UTF-8, whatever the terminal's encoding. It does not know what the
questions are.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Generic, TypeVar

from bertsmith.reading.compressed import checked_utf8
from bertsmith.reading.decompression import is_compressed_start
from bertsmith.reading.lines import numbered_lines, require_line_feeds

Question = TypeVar("Question")

WINDOW = 4096
"""Questions that are read before the first of them is answered."""
STANDARD_INPUT = Path("-")
_BYTE_ORDER_MARK = "\ufeff"


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
        """Raises ValueError for a directory."""
        if folder := next((file for file in files if file.is_dir()), None):
            raise ValueError(f"{folder} is a directory: name a file of questions, one a line")
        self._asked = asked
        self._files = files if files or asked else (STANDARD_INPUT,)
        self._checked = checked
        self._also: Callable[[Question], None] = lambda question: None
        self.num_asked = self._num_blank = 0
        self.bytes_read = 0
        """Of the files and the pipe, up to the window in hand."""

    @property
    def num_bytes(self) -> int:
        """Bytes to be read; 0 where that cannot be known, as of a pipe."""
        sizes = [file.stat().st_size for file in self._files if can_be_read_twice(file)]
        return sum(sizes) if len(sizes) == len(self._files) else 0

    def check(self, also: Callable[[Question], None] | None = None) -> None:
        """Reads arguments and files once, so that a mistake in them shows before the long work.

        From here on `also` is asked of every question, and raises ValueError for one that the model
        at hand cannot answer.
        """
        self._also = also or self._also
        for _ in self._read(list(filter(can_be_read_twice, self._files))):
            pass

    def windows(self, size: int = WINDOW) -> Iterator[list[Question]]:
        """Lists of questions; one by one where a person is typing them.

        What stands before a mistake is handed out before the mistake is raised.
        """
        typed = STANDARD_INPUT in self._files and sys.stdin.isatty()
        questions = self._read(self._files)
        mistake: ValueError | None = None
        window: list[Question] = []
        while not mistake:
            window = []
            try:
                for question in itertools.islice(questions, 1 if typed else size):
                    window.append(question)
            except ValueError as error:
                mistake = error
            if window:
                yield window
            elif not mistake:
                return
        raise mistake

    def report(self, num_cut: int, limit: int, consequence: str) -> None:
        """Says on standard error what was not read."""
        if num_cut:
            print(
                f"{num_cut:,} of {self.num_asked:,} were longer than the {limit} tokens that the "
                f"model reads: {consequence}",
                file=sys.stderr,
            )
        if self._num_blank:
            print(f"blank lines passed over: {self._num_blank:,}", file=sys.stderr)

    def _read(self, files: Sequence[Path]) -> Iterator[Question]:
        self.num_asked = self._num_blank = self.bytes_read = 0
        read = (self._lines(f) if can_be_read_twice(f) else self._piped(f) for f in files)
        for place, text in itertools.chain(self._asked, itertools.chain.from_iterable(read)):
            if not text.strip():
                self._num_blank += 1
                continue
            self.num_asked += 1
            try:
                question = self._checked(text)
                self._also(question)
            except ValueError as error:
                raise ValueError(f"{place}: {error}") from error
            yield question

    def _lines(self, file: Path) -> Iterator[tuple[str, str]]:
        """(place, line) of a file, compressed or not. Raises ValueError for what is no text."""
        before = self.bytes_read
        for number, position, line in numbered_lines(file):
            self.bytes_read = before + position
            yield f"{file}:{number}", line

    def _piped(self, file: Path) -> Iterator[tuple[str, str]]:
        start = self.bytes_read
        for place, text, num_bytes in piped_lines(file):
            self.bytes_read = start + num_bytes
            yield place, text


def piped_lines(file: Path) -> Iterator[tuple[str, str, int]]:
    """(place, line, bytes read) of a pipe, where a line is there as soon as it is written.

    Raises ValueError for what is no text.
    """
    name = "standard input" if file == STANDARD_INPUT else str(file)
    num_bytes = 0
    with _opened(file) as lines:
        for number, line in enumerate(lines, start=1):
            if number == 1 and is_compressed_start(line):
                raise ValueError(f"{name} is compressed: name the file itself with --file")
            text, _ = checked_utf8(line, name, num_bytes, number, final=True)
            num_bytes += len(line)
            if number == 1:
                text = text.removeprefix(_BYTE_ORDER_MARK)
                if not text.endswith("\n"):
                    require_line_feeds(text, name)
            end = "\r\n" if text.endswith("\r\n") else "\n"
            yield f"{name}:{number}", text.removesuffix(end), num_bytes


def can_be_read_twice(file: Path) -> bool:
    """Not so the pipes `-` and `<(command)`; a missing file counts, to be missed at once."""
    return file != STANDARD_INPUT and (file.is_file() or not file.exists())


def _opened(file: Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if file == STANDARD_INPUT:
        return contextlib.nullcontext(sys.stdin.buffer)
    return file.open("rb")
