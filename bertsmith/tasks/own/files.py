"""A person's own file of rows -> examples, and what of it is none.

How a row becomes an example is said elsewhere: `texts`, `words`, `questions`, `choices`. A row with
nothing to read or to learn is left out, since official sets have such rows; a broken one is
refused, or left out where that is asked for. Either is told with its file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from bertsmith.reading.counted import counted
from bertsmith.reading.faults import refuse
from bertsmith.reading.tables import Row, columns, rows
from bertsmith.tasks.given import is_readable
from bertsmith.tasks.own.ids import SeenIds

ExampleT = TypeVar("ExampleT")

_IDS = ("id", "guid", "idx")
"""Columns that usually hold ids."""
_ADVICE = "mend it, or leave such rows out with --skip-malformed"


class UnusableRow(ValueError):
    """A whole row of which nothing can be learned: without text, or marked as unlabelled."""


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How rows are read, whatever they hold."""

    has_header: bool = True
    """Whether the first row of CSV and TSV names the columns; else they are 1, 2, ..."""
    skip_malformed: bool = False
    """Leave broken rows out and count them, instead of stopping at the first."""


class LeftOut:
    """What of a file is left out, as it is read."""

    def __init__(self, options: FileOptions) -> None:
        self._skip_malformed = options.skip_malformed
        self.faults: list[str] = []
        """Of each row left out: where it stands, and why."""

    def malformed(self, fault: str) -> None:
        """Takes a broken row. Raises ValueError where such rows are not to be left out."""
        if not self._skip_malformed:
            refuse(fault, _ADVICE)
        self.faults.append(fault)


@dataclass(frozen=True, kw_only=True)
class OwnFile(Generic[ExampleT]):
    """What a file holds."""

    path: Path
    examples: tuple[ExampleT, ...]
    """At least one, in the file's order."""
    left_out: tuple[str, ...] = ()
    """Of each row that is none of them: where it stands, and why."""
    notes: tuple[str, ...] = ()
    """What was read otherwise than it stands."""
    unlearnable: Mapping[int, str] = field(default_factory=dict)
    """Of examples that can be scored and not learned, by number: where they stand, and why."""


def read_rows(
    path: Path,
    names: Sequence[str],
    example: Callable[[Row], ExampleT],
    options: FileOptions,
    key: str = "",
    optional: Sequence[str] = (),
) -> OwnFile[ExampleT]:
    """Every row as `example` makes it of the columns `names`, and those `optional` ones.

    `key` names a column of ids, which must be unique; empty for none. Without it, ids that stand
    twice in a column of a usual name are told in a note. What `example` raises as `UnusableRow` is
    left out; another ValueError is a broken row. Raises as `tables.rows` does, and ValueError for
    the first broken row and for a file of which no row is left.
    """
    left_out = LeftOut(options)
    wanted = dict.fromkeys([*names, *([key] if key else [])])
    found = columns(path, has_header=options.has_header)
    ids = (
        [] if key else [name for name in _IDS if found.count(name) == 1 and name not in wanted][:1]
    )
    collected = _Collected(left_out, example, key, *ids)
    for row in rows(
        path,
        list(wanted),
        optional=[*ids, *optional],
        has_header=options.has_header,
        on_malformed=left_out.malformed,
    ):
        collected.take(row)
    return whole(path, collected.examples, left_out.faults, collected.notes())


def whole(
    path: Path,
    examples: Sequence[ExampleT],
    left_out: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> OwnFile[ExampleT]:
    """The value of a file that was read. Raises ValueError where no example is left."""
    if not examples:
        first = f", the first because: {left_out[0]}" if left_out else ""
        told = f"{counted(len(left_out), 'row')} {'was' if len(left_out) == 1 else 'were'}"
        raise ValueError(f"{path}: no example in it; {told} left out{first}")
    return OwnFile(
        path=path, examples=tuple(examples), left_out=tuple(left_out), notes=tuple(notes)
    )


def require_text(text: str, place: str, column: str) -> str:
    """The text. Raises UnusableRow for one without a character that a model could read."""
    if not is_readable(text):
        raise UnusableRow(f"{place}: column {column!r} is empty")
    return text


class _Collected(Generic[ExampleT]):
    """Examples and faults while a file is read."""

    def __init__(
        self, left_out: LeftOut, example: Callable[[Row], ExampleT], key: str, ids: str = ""
    ) -> None:
        self._left_out = left_out
        self._example = example
        self._key = key
        self._ids = ids
        self._seen = SeenIds(key or ids)
        self._num_long, self._longest = 0, (1, "")
        self.examples: list[ExampleT] = []

    def take(self, row: Row) -> None:
        if row.num_lines > 1:
            self._num_long += 1
            self._longest = max(self._longest, (row.num_lines, row.place), key=lambda pair: pair[0])
        try:
            self._require_new(row)
            self.examples.append(self._example(row))
        except UnusableRow as fault:
            self._left_out.faults.append(str(fault))
        except ValueError as fault:
            self._left_out.malformed(str(fault))

    def notes(self) -> tuple[str, ...]:
        """Of rows over several lines, and of ids that stand twice, where that is no fault."""
        told = []
        if self._num_long:
            num_lines, place = self._longest
            told.append(
                f"{counted(self._num_long, 'row goes', 'rows go')} on over several lines, the "
                f"longest, at {place}, over {num_lines:,}: if no text should have line ends, a "
                f"stray quote has joined rows"
            )
        if self._ids and (note := self._seen.note()):
            told.append(note)
        return tuple(told)

    def _require_new(self, row: Row) -> None:
        name = self._key or self._ids
        if not name or (not self._key and row.values[name] in (None, "")):
            return
        key = str(row.values[name])
        first = self._seen.first_place(key, row.place)
        if first and self._key:
            raise ValueError(f"{row.place}: {name} {key!r} stands at {first} too")
