"""A text file -> its lines, numbered; and lines -> the fields of CSV and TSV, the objects of JSONL.

Memory is bounded by the longest line. Nothing here knows columns.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from bertsmith.reading.compressed import Member, open_members, text_blocks
from bertsmith.reading.faults import refuse
from bertsmith.reading.records import LONGEST_LINE

Content = TypeVar("Content")

Numbered = tuple[int, int, Content]
"""The line where it begins, from 1; bytes of the file on disk consumed; what stands there."""


def numbered_lines(path: Path) -> Iterator[Numbered[str]]:
    r"""Every line without its end, `\n` or `\r\n`, the last one's end not needed.

    Raises ValueError for no text, and for a file whose lines end in `\r` alone.
    """
    for member in _members(path):
        lines = _Lines(member)
        for line in lines:
            yield lines.number, lines.position, line


def require_line_feeds(text: str, name: str) -> None:
    r"""Raises ValueError where the only line of `name` has a `\r` inside."""
    if "\r" in text:
        raise ValueError(
            f"{name}: its lines end in carriage returns alone, as on an old Macintosh: convert it "
            f"first: tr '\\r' '\\n'"
        )


def json_objects(
    path: Path, on_malformed: Callable[[str], None] = refuse
) -> Iterator[Numbered[dict[str, object] | None]]:
    """One object a line; blank lines are passed over.

    Of any other line `on_malformed` is told, and None stands in its place.
    """
    for number, position, line in numbered_lines(path):
        if not line or line.isspace():
            continue
        record = None
        try:
            record = json_object(line, f"{path}:{number}")
        except ValueError as fault:
            on_malformed(str(fault))
        yield number, position, record


def json_object(line: str, place: str) -> dict[str, object]:
    """What stands in a line of JSONL. Raises ValueError, with the place, for no object."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:  # a number of too many digits is a ValueError
        raise ValueError(f"{place}: not JSON ({error}), expected one object a line") from error
    if not isinstance(record, dict):
        raise ValueError(f"{place}: expected a JSON object, found {type(record).__name__}")
    return record


def tab_separated(path: Path) -> Iterator[Numbered[list[str]]]:
    """Each line's fields; empty lines are passed over. A quote is an ordinary character."""
    for number, position, line in numbered_lines(path):
        if line:
            yield number, position, line.split("\t")


def comma_separated(path: Path) -> Iterator[Numbered[list[str]]]:
    """Each record's fields; empty lines are passed over. Raises ValueError for a stray quote.

    Source: RFC 4180.
    """
    for member in _members(path):
        lines = _Lines(member)
        reader = csv.reader((line + "\n" for line in lines), strict=True)
        fields: list[str] | None = []
        while fields is not None:
            number = reader.line_num + 1
            # The module's limit on a field's length is the whole process's: raised for one record.
            limit = csv.field_size_limit(LONGEST_LINE)
            try:
                fields = next(reader, None)
            except csv.Error as error:
                if "\r" in lines.latest:
                    raise ValueError(
                        f"{path}:{lines.number}: a carriage return stands alone in the row: remove "
                        f"it, or write the field in quotes"
                    ) from error
                raise ValueError(
                    f"{path}:{number}: not CSV ({error}): a field that holds a quote stands in "
                    f"quotes, its own doubled; where quotes mean nothing, separate by tabs (.tsv)"
                ) from error
            finally:
                csv.field_size_limit(limit)
            if fields:
                yield number, lines.position, fields


class _Lines:
    """A text's lines, with the latest, its number, and where in the file it ends."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.number = 0
        self.position = 0
        self.latest = ""

    def __iter__(self) -> Iterator[str]:
        rest, end = "", 0
        for block in text_blocks(self._member, keeps_returns=True):
            start, end = end, self._member.position()
            text = rest + block
            *lines, rest = text.split("\n")
            num_characters = 0
            for line in lines:
                num_characters += len(line) + 1
                self.number += 1
                # A block is a mebibyte of text: too long a step for a progress bar.
                self.position = start + (end - start) * num_characters // len(text)
                self.latest = line
                yield line
            if len(rest) > LONGEST_LINE:
                place = f"{self._member.name}:{self.number + 1}"
                raise ValueError(f"{place}: a line of over {LONGEST_LINE:,} characters")
        if rest:
            self.number, self.position = self.number + 1, end
            if self.number == 1:
                require_line_feeds(rest, self._member.name)
            self.latest = rest
            yield rest


def _members(path: Path) -> Iterator[Member]:
    """The file's only stream. Raises ValueError for an archive."""
    for member in open_members(path):
        if member.name != str(path):
            raise ValueError(f"{path} is an archive; rows are read from one file: unpack it first")
        yield member
