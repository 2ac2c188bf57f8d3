"""A command's questions to a task -> windows of rows, checked, a few thousand at a time.

However large the files are, one window of them is held. How rows are read stands in `asked_rows`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bertsmith.commands.asked_entry import Entry, RowFiles, Unit
from bertsmith.commands.asked_rows import units_of_arguments, units_of_file
from bertsmith.commands.questions import STANDARD_INPUT, WINDOW, can_be_read_twice
from bertsmith.reading.squad_json import Question
from bertsmith.tasks.asked import Asked, TextToTag
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.own.unlabelled import AskedRows

_MOST_CHARACTERS = 1 << 22
"""Of a window's texts: a long passage makes many sequences."""


class AskedQuestions:
    """The questions of one command; counts what it passes over."""

    def __init__(
        self, arguments: Sequence[str], files: Sequence[Path], rows: AskedRows, how: RowFiles
    ) -> None:
        """Standard input is read where there is nothing else. Raises for files that are not there.

        That is FileNotFoundError, or ValueError for a directory.
        """
        self._arguments, self._rows, self._how = arguments, rows, how
        self._files = files if files or arguments else (STANDARD_INPUT,)
        self._unreadable: Callable[[Asked], str] = lambda asked: ""
        self._asks_all = False
        require_files(self._files)
        self.num_asked = self.num_faults = 0
        """Rows up to the window in hand, and those of them that ask nothing, or only in part."""
        self.first_fault = ""
        self.bytes_read = 0

    @property
    def num_bytes(self) -> int:
        """Bytes to be read; 0 where that cannot be known, as of a pipe."""
        sizes = [file.stat().st_size for file in self._files if can_be_read_twice(file)]
        return sum(sizes) if len(sizes) == len(self._files) else 0

    def check(self, unreadable: Callable[[Asked], str], *, asks_all: bool = False) -> None:
        """Reads arguments and files once, so that a mistake in them shows before the long work.

        `unreadable` says why the model at hand reads nothing of a side of a question, empty where
        it reads all. Such a question is left out; with `asks_all` it is asked, and told.
        """
        self._unreadable, self._asks_all = unreadable, asks_all
        for _ in self._units([file for file in self._files if can_be_read_twice(file)]):
            pass

    def windows(self, size: int = WINDOW) -> Iterator[list[Entry]]:
        """Lists of rows; one by one where a person is typing them. A document is never parted.

        What stands before a mistake is handed out before the mistake is raised.
        """
        typed = STANDARD_INPUT in self._files and sys.stdin.isatty()
        units, window, num_characters = self._units(self._files), list[Entry](), 0
        mistake: ValueError | None = None
        while mistake is None:
            try:
                unit = next(units, None)
            except ValueError as error:
                mistake, unit = error, None
            if unit is None:
                break
            window += unit
            num_characters += sum(_num_characters(entry.asked) for entry in unit)
            if len(window) >= (1 if typed else size) or num_characters >= _MOST_CHARACTERS:
                yield window
                window, num_characters = [], 0
        if window:
            yield window
        if mistake is not None:
            raise mistake

    def report(self) -> None:
        """Says on standard error which rows have no answer, or one to a part of them."""
        if self.num_faults:
            what = "are answered by what else is there" if self._asks_all else "have no answer"
            print(
                f"{self.num_faults:,} of {self.num_asked:,} {what}; the first: {self.first_fault}",
                file=sys.stderr,
            )

    def _units(self, files: Sequence[Path]) -> Iterator[list[Entry]]:
        self.num_asked = self.num_faults = self.bytes_read = 0
        self.first_fault = ""
        located = enumerate(self._located(files), start=1)
        for number, ((unit, num_bytes), before) in located:
            entries = [self._checked(entry, number) for entry in unit]
            faults = [entry.fault for entry in entries if entry.fault]
            self.num_asked += len(entries)
            self.num_faults += len(faults)
            self.first_fault = self.first_fault or next(iter(faults), "")
            self.bytes_read = before + num_bytes
            yield entries

    def _located(self, files: Sequence[Path]) -> Iterator[tuple[Unit, int]]:
        """Every unit, and the bytes of the files before its own."""
        yield from ((unit, 0) for unit in units_of_arguments(self._arguments, self._rows))
        before = 0
        for file in files:
            for unit in units_of_file(file, self._rows, self._how):
                yield unit, before
            before += file.stat().st_size if can_be_read_twice(file) else 0

    def _checked(self, entry: Entry, number: int) -> Entry:
        """The row, its document numbered through all files."""
        asked = entry.asked
        if asked is None:
            return entry
        if fault := self._unreadable(asked):
            kept = asked if self._asks_all else None
            return replace(entry, asked=kept, fault=f"{entry.place}: {fault}")
        return replace(
            entry,
            asked=replace(asked, document=number) if isinstance(asked, TextToTag) else asked,
        )


def require_files(files: Sequence[Path]) -> None:
    """Raises FileNotFoundError for a file that is not there, ValueError for a directory."""
    for file in files:
        if file.is_dir():
            raise ValueError(f"{file} is a directory: name a file of questions")
        if file != STANDARD_INPUT and not file.exists():
            raise FileNotFoundError(f"{file}: no such file")


def _num_characters(asked: Asked | None) -> int:
    match asked:
        case None:
            return 0
        case TextToTag():
            return len(asked.text)
        case Question():
            return len(asked.question) + len(asked.passage)
        case ChoiceExample():
            return len(asked.text) * len(asked.choices) + sum(map(len, asked.choices))
    return sum(map(len, asked.texts))
