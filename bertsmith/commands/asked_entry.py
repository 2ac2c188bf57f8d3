"""A row of a file or a pipe, and what is asked in it; and how files are read.

It reads nothing itself: see `asked_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from bertsmith.tasks.asked import Asked, TextToTag

Piped = Literal["lines", "jsonl"]


@dataclass(frozen=True, kw_only=True)
class RowFiles:
    """How files are read, whatever is asked."""

    has_header: bool = True
    """Whether the first row of CSV and TSV names the columns; else they are 1, 2, ..."""
    is_conll: bool = False
    """Whether files to tag hold a word a line, whatever they are called."""
    piped: Piped = "lines"
    """What comes through a pipe."""
    keep: tuple[str, ...] = ()
    """Columns whose values go with the answers."""
    skip_malformed: bool = False
    """Whether a broken row gets a fault for an answer, instead of stopping everything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A row, and what is asked in it."""

    place: str
    asked: Asked | None
    """None where nothing in it can be read."""
    fault: str = ""
    """Why there is none; or what of it is nothing to read, where it is asked all the same."""
    kept: dict[str, object] = field(default_factory=dict)
    """The values of the columns that are kept; of a broken row those that could be read."""


Unit = tuple[list[Entry], int]
"""Rows that are read together, as those of a document to tag; bytes of the file read so far."""


def in_documents(read: Iterable[tuple[Entry, int]]) -> Iterator[Unit]:
    """Rows one by one; those to tag together with the others of their document."""
    together: list[Entry] = []
    document, num_bytes = None, 0
    for entry, read_so_far in read:
        own = entry.asked.document if isinstance(entry.asked, TextToTag) else None
        if together and (own is None or own != document):
            yield together, num_bytes
            together = []
        together.append(entry)
        document, num_bytes = own, read_so_far
    if together:
        yield together, num_bytes


def broken(fault: str) -> Entry:
    """A row that could not be read."""
    return Entry(place=fault, asked=None, fault=fault)
