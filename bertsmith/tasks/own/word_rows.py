"""Rows of a word each -> sentences to tag: CSV, TSV, JSONL or Parquet.

A column says which sentence a word is in; rows of one sentence are neighbours, and an empty field
stands for the sentence of the row before. It knows nothing of what a tag means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.counted import counted
from bertsmith.reading.faults import refuse
from bertsmith.reading.tables import Row
from bertsmith.tasks.own.labels import Spelling
from bertsmith.tasks.own.word_columns import WordColumns

_Key = tuple[str, str]
"""The document, empty where no column says it, and the sentence in it."""


class WordRows:
    """The sentences of a file, in its order, and what was read otherwise than it stands."""

    def __init__(self, path: Path, columns: WordColumns, *, has_header: bool = True) -> None:
        """`columns` names a column of sentences."""
        assert columns.sentence
        self._path = path
        self._columns = columns
        self._has_header = has_header
        self._spelling = Spelling(columns.tag_names)
        self._place_of: dict[_Key, str] = {}
        self._documents: dict[_Key | str, int] = {}
        self._num_continued = 0

    def sentences(self, on_malformed: Callable[[str], None] = refuse) -> Iterator[TaggedSentence]:
        """Sentence by sentence; one with a broken row in it or beside it is left out.

        It is told to `on_malformed`. Raises as `tables.rows` does, and ValueError, with file and
        line, for what nobody is told of and for a sentence that goes on behind another.
        """
        faults: list[str] = []
        gathered: _Gathered | None = None
        for row in self._rows(faults.append):
            key = self._key(row, gathered)
            if gathered is not None:
                gathered.faults += faults
            if gathered is None or gathered.key != key:
                if gathered is not None:
                    yield from self._whole(gathered, on_malformed)
                gathered = _Gathered(key, row.place, self._document(key, row), [*faults])
                self._require_new(gathered)
            faults.clear()
            self._take(row, gathered)
        if gathered is not None:
            gathered.faults += faults
            yield from self._whole(gathered, on_malformed)

    def notes(self) -> tuple[str, ...]:
        """Of words whose sentence is that of the row before, and of tags."""
        told = []
        if self._num_continued:
            words_have = counted(self._num_continued, "word has", "words have")
            name = self._columns.sentence
            told.append(f"{words_have} an empty {name!r}: in the sentence of the row before")
        return (*told, *self._spelling.notes())

    def _rows(self, on_malformed: Callable[[str], None]) -> Iterator[Row]:
        columns = self._columns
        named = (columns.sentence, columns.words, columns.tags, columns.document)
        wanted = list(dict.fromkeys(name for name in named if name))
        return tables.rows(
            self._path, wanted, has_header=self._has_header, on_malformed=on_malformed
        )

    def _key(self, row: Row, before: _Gathered | None) -> _Key:
        columns = self._columns
        document = str(row.values[columns.document]) if columns.document else ""
        value = row.values[columns.sentence]
        is_empty = value is None or (isinstance(value, float) and math.isnan(value))
        spelt = "" if is_empty else str(value).strip()
        if spelt:
            return document, spelt
        if before is None:
            raise ValueError(
                f"{row.place}: no sentence in {columns.sentence!r}, and no row before it to go on "
                f"from: give each sentence a number of its own"
            )
        self._num_continued += 1
        return before.key

    def _document(self, key: _Key, row: Row) -> int:
        name = key[0] if self._columns.document else key
        return self._documents.setdefault(name, len(self._documents))

    def _require_new(self, gathered: _Gathered) -> None:
        first = self._place_of.setdefault(gathered.key, gathered.place)
        if first != gathered.place:
            raise ValueError(
                f"{gathered.place}: sentence {gathered.key[1]!r} began at {first}, and another "
                f"stands between: rows of one sentence must be neighbours, so sort the file by "
                f"{self._columns.sentence!r}, in the order of the words; where sentences are "
                f"counted anew in each document, name that with --document-column"
            )

    def _take(self, row: Row, gathered: _Gathered) -> None:
        columns = self._columns
        try:
            word = row.text(columns.words)
            if not word:
                raise ValueError(f"{row.place}: a word of no characters")
            tag = self._tag(row.values[columns.tags], row.place) if columns.tags else ""
        except ValueError as fault:
            gathered.faults.append(str(fault))
            return
        gathered.words.append(word)
        gathered.tags.append(tag)
        line = row.place.rpartition(":")[2]
        if line.isdigit():
            gathered.lines.append(int(line))

    def _tag(self, value: object, place: str) -> str:
        has_names = bool(self._columns.tag_names)
        if has_names and isinstance(value, str) and value.isdigit():
            value = int(value)
        if not has_names and isinstance(value, int):
            raise ValueError(
                f"{place}: the tag is a number, and nothing says what it means: give the names of "
                f"0, 1, ... in their order with --tag-names"
            )
        return self._spelling.label(value, place)

    def _whole(
        self, gathered: _Gathered, on_malformed: Callable[[str], None]
    ) -> Iterator[TaggedSentence]:
        if gathered.faults:
            on_malformed(gathered.faults[0])
            return
        yield TaggedSentence(
            place=gathered.place,
            words=tuple(gathered.words),
            tags=tuple(gathered.tags) if self._columns.tags else None,
            document=gathered.document,
            lines=tuple(gathered.lines),
        )


@dataclass
class _Gathered:
    """The words of a sentence so far."""

    key: _Key
    place: str
    document: int
    faults: list[str]
    words: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
