"""A file to tag -> whether its lines are words, as in CoNLL's columns, or it is a table or text.

By its name, and where that does not say by its first lines: CoNLL's columns are often called .txt,
and texts to tag .tsv.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.reading.conll import DOCUMENT_START, is_comment
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.lines import numbered_lines

_OF_WORDS = (".conll", ".conllu", ".bio", ".iob", ".iob2")
_FIRST_LINES = 100
_NEARLY_ALL = 0.9
"""The share of lines that are alike: one may be broken, and is told of when it is read."""
_OUTSIDE = "O"
_ENTITY = re.compile(r"[BIESLU]-\S+")


def holds_words(
    path: Path, columns: Sequence[str], tags: Collection[str], *, is_table: bool, has_header: bool
) -> bool:
    """Whether each line is a word.

    `columns` are what a column of texts or words may be called, `tags` those that a model gives;
    `is_table` says that a column of the file was named. Raises FileNotFoundError and ValueError as
    `tables.table_format` does.
    """
    if suffix_of(path.name) in _OF_WORDS:
        return True
    format = tables.table_format(path)
    if format == "text":
        return _holds_tags(path, tags)
    if format != "tsv" or is_table:
        return False
    return not (has_header and _has_header(path, columns))


def is_word_and_tag(line: str, tags: Collection[str]) -> bool:
    """Whether a line ends in one of the tags that is an entity's, as no text does."""
    _, *others = line.split() or [""]
    return bool(others) and others[-1] in tags and _ENTITY.fullmatch(others[-1]) is not None


def _has_header(path: Path, columns: Sequence[str]) -> bool:
    """Whether the first line names a known column, and no empty line parts sentences."""
    lines = "\n".join(_beginning(path)).rstrip("\n").split("\n")
    return "" not in lines and not set(columns).isdisjoint(lines[0].split("\t"))


def _holds_tags(path: Path, tags: Collection[str]) -> bool:
    """Whether nearly all lines are of one width, and one of their columns holds tags."""
    lines = [
        line
        for line in _beginning(path)
        if line.strip() and not is_comment(line) and not line.startswith(DOCUMENT_START)
    ]
    has_tabs = any("\t" in line for line in lines)
    rows = [line.split("\t") if has_tabs else line.split() for line in lines]
    if not rows:
        return False
    ((width, _),) = Counter(map(len, rows)).most_common(1)
    alike = [row for row in rows if len(row) == width]
    return width > 1 and any(
        sum(_is_tag(row[place], tags) for row in alike) >= _NEARLY_ALL * len(rows)
        for place in range(1, width)
    )


def _is_tag(field: str, tags: Collection[str]) -> bool:
    return field in (*tags, _OUTSIDE) or _ENTITY.fullmatch(field) is not None


def _beginning(path: Path) -> list[str]:
    lines = (line for _, _, line in islice(numbered_lines(path), _FIRST_LINES))
    return [line.removeprefix("\ufeff") for line in lines]
