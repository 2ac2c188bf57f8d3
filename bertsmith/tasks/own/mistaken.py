"""A file that is taken for words and tags, and is none -> what it is, and which option reads it.

It looks at the beginning of a file alone, and reads no tags.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.reading.conll import TaggedSentence, is_comment
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.lines import numbered_lines
from bertsmith.tasks.own import choices

WORDS = (
    "words with tags are read from CoNLL's columns (a word a line, its tag behind a tab or a "
    "blank: .tsv, .txt), or from .jsonl or .parquet with a list of words and one of tags a row, or "
    "from a table of a word a row that has a column of its sentence (--sentence-column)"
)
NO_WORDS = (
    "a line holds one word and its tag; whole texts with labels are read by --texts, as a table"
)
_FIRST_LINES = 100
_QUESTION = {"question", "context"}
_BETWEEN_TABS = (".tsv", ".tab")


def require_lines(path: Path) -> None:
    """Raises ValueError for a file that holds a table, by its name or between its tabs."""
    suffix = suffix_of(path.name)
    tables.require_no_spreadsheet(path)
    if suffix == ".json":
        raise ValueError(f"{path}: one JSON object; {WORDS}; SQuAD's questions are read by --squad")
    if suffix == ".csv":
        found = tables.columns(path)
        named = ", ".join(map(repr, found))
        raise ValueError(
            f"{path}: a table with the columns {named:.200}; {WORDS}; {_reader(found)}"
        )
    if path.is_file():
        _require_no_texts(path)


def require_columns(path: Path, names: Sequence[str]) -> None:
    """Raises ValueError for rows that have no column of lists of words, or of tags."""
    advice = "name the lists of words with --word-column and those of tags with --tag-column"
    _require(path, tables.columns(path), names, advice)


def require_word_columns(path: Path, names: Sequence[str], has_header: bool) -> None:
    """Raises ValueError for a table of a word a row that lacks one of its columns."""
    advice = (
        "of a table of a word a row name the column of its sentence with --sentence-column, of "
        "words with --word-column and of tags with --tag-column"
    )
    _require(path, tables.columns(path, has_header=has_header), names, advice)


def _require(path: Path, found: Sequence[str], names: Sequence[str], advice: str) -> None:
    """Raises ValueError for the first of the names that is no column, with what to do."""
    for name in names:
        if name not in found:
            near = difflib.get_close_matches(name, found, n=1)
            raise ValueError(
                f"{path}: no column {name!r}, found {', '.join(map(repr, found)):.200}: {advice}; "
                f"{f'did you mean {near[0]!r}?' if near else _reader(found)}"
                f"{tables.misread(path, found, name)}"
            )


def require_tags(sentence: TaggedSentence) -> None:
    """Raises ValueError for a sentence of a file that has a single column."""
    if sentence.tags is None:
        raise ValueError(
            f"{sentence.place}: {sentence.words[0]!r:.60} stands alone, expected a word and its "
            f"tag, as in 'Rome B-LOC', in every line: nothing can be learned of words without tags"
        )


def _reader(columns: Sequence[str]) -> str:
    if choices.layout_of(columns):
        return "a table of questions with choices is read by --choices"
    if set(columns) >= _QUESTION:
        return "questions about passages are read by --squad"
    return "a table of texts is read by --texts"


def _require_no_texts(path: Path) -> None:
    """Of columns between tabs none holds texts: words have hardly a blank inside.

    With an empty line between sentences it is no table, whatever the columns hold.
    """
    listed = _beginning(path)
    rows = [each for each in listed if len(each[1]) == len(listed[0][1]) > 1]
    has_header = len(rows) > 1 and not any(map(_is_text, rows[0][1]))
    below = rows[has_header:]
    texts = [
        place
        for place in range(len(rows[0][1]) if rows else 0)
        if 2 * sum(_is_text(fields[place]) for _, fields in below) > len(below)
    ]
    if not texts:
        return
    held = [(number, fields[texts[0]]) for number, fields in below if _is_text(fields[texts[0]])]
    number, text = held[0]
    names = rows[0][1] if has_header else [str(place + 1) for place in range(len(rows[0][1]))]
    raise ValueError(
        f"{path}:{number}: {text!r:.60} is a text, as in {len(held):,} of {len(below):,} lines; "
        f"{WORDS}; {_reader(names)}{_options(path, names, texts, has_header)}"
    )


def _beginning(path: Path) -> list[tuple[int, list[str]]]:
    """The fields of the first lines that are not empty; none where an empty one parts them."""
    lines = [
        (number, line.removeprefix("\ufeff").split("\t"))
        for number, _, line in islice(numbered_lines(path), _FIRST_LINES)
        if not is_comment(line)
    ]
    filled = [place for place, (_, fields) in enumerate(lines) if fields[1:] or fields[0].strip()]
    is_parted = bool(filled) and filled[-1] - filled[0] >= len(filled)
    return [] if is_parted else [lines[place] for place in filled]


def _is_text(field: str) -> bool:
    return len(field.split()) > 1


def _options(path: Path, names: Sequence[str], texts: Sequence[int], has_header: bool) -> str:
    """How --texts would be told of these columns; empty where that is not plain."""
    others = [name for place, name in enumerate(names) if place not in texts]
    if len(texts) > 2 or not others:
        return ""
    label = "label" if "label" in others else others[-1]
    named = [*(["--no-header"] if not has_header else []), "--text-columns"]
    words = shlex.join([*named, *(names[place] for place in texts), "--label-column", label])
    renamed = "" if suffix_of(path.name) in _BETWEEN_TABS else ", under a name that ends in .tsv"
    return f", this one with {words}{renamed}"
