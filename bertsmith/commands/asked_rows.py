"""A file of any format, or a pipe -> its rows as questions of a task, in order.

Text, CSV, TSV, JSONL and Parquet stream through; SQuAD's JSON is read whole. Every row gives a
question or says why it is none, so that answers can stand beside rows. What a question is made of
is said by `tasks.own.unlabelled`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bertsmith.commands.asked_entry import Entry, RowFiles, Unit, broken, in_documents
from bertsmith.commands.questions import can_be_read_twice, piped_lines
from bertsmith.reading import tables
from bertsmith.reading.conll import TaggedSentence, marks_documents, tagged_sentences
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.faults import refuse
from bertsmith.reading.lines import json_object, json_objects
from bertsmith.reading.squad_json import read_questions
from bertsmith.reading.tables import TEXT, Row
from bertsmith.tasks.asked import Asked, TextToTag
from bertsmith.tasks.own.files import UnusableRow
from bertsmith.tasks.own.unlabelled import AskedRows, Columns, QuestionsAsked, Reader, WordsAsked
from bertsmith.tasks.own.word_columns import WordColumns, is_word_table
from bertsmith.tasks.own.word_lines import holds_words, is_word_and_tag
from bertsmith.tasks.own.word_rows import WordRows

KEY = "id"
"""What is kept of a question of SQuAD's JSON."""


def units_of_arguments(arguments: Sequence[str], rows: AskedRows) -> Iterator[Unit]:
    """Each argument a question, or all of them one. Raises ValueError for one of nothing."""
    if not arguments:
        return
    if not rows.takes_one:
        yield [Entry(place="the arguments", asked=rows.of_fields(arguments, "the arguments"))], 0
        return
    for number, text in enumerate(arguments, start=1):
        place = f"text {number}"
        yield [Entry(place=place, asked=rows.of_fields([text], place))], 0


def units_of_file(file: Path, rows: AskedRows, how: RowFiles) -> Iterator[Unit]:
    """The rows of a file or a pipe.

    Raises FileNotFoundError and ValueError as the readers of `reading` do, for columns that are not
    there, and for a row that is no question, unless such rows are to be left out.
    """
    reader = _Reader(file, rows, how)
    if not can_be_read_twice(file):
        yield from reader.of_pipe()
    elif isinstance(rows, QuestionsAsked) and suffix_of(file.name) == ".json":
        reader.refuse_to_keep("SQuAD's JSON")
        for question in read_questions(file).questions:
            kept: dict[str, object] = {KEY: question.key}
            yield [Entry(place=question.place, asked=question, kept=kept)], 0
    elif isinstance(rows, WordsAsked) and _has_a_word_a_row(file, rows, how):
        reader.refuse_to_keep("a table of a word a row")
        yield from _of_word_rows(file, rows, how)
    elif isinstance(rows, WordsAsked) and _is_conll(file, rows, how):
        if rows.is_named:
            raise ValueError(
                f"--columns names a column of a table, and {file} is read as CoNLL's columns, of "
                f"which the first holds the words: leave it out"
            )
        reader.refuse_to_keep("CoNLL's columns")
        yield from _of_conll(file, rows, how)
    elif tables.table_format(file) == "text":
        yield from reader.of_lines()
    else:
        yield from reader.of_table()


def _is_conll(file: Path, rows: WordsAsked, how: RowFiles) -> bool:
    return how.is_conll or holds_words(
        file,
        rows.words,
        rows.tags,
        is_table=rows.is_named or bool(how.keep),
        has_header=how.has_header,
    )


def _of_conll(file: Path, rows: WordsAsked, how: RowFiles) -> Iterator[Unit]:
    """Sentences in their documents; where none are marked each alone, as in training."""
    is_marked = rows.is_one_document or marks_documents(file)
    faults: list[str] = []
    read = tagged_sentences(file, on_malformed=faults.append if how.skip_malformed else refuse)
    placed = (
        each if is_marked else replace(each, document=number) for number, each in enumerate(read)
    )
    yield from in_documents(_beside_faults(_entries(placed, rows), faults))


def _has_a_word_a_row(file: Path, rows: WordsAsked, how: RowFiles) -> bool:
    is_table = not (how.is_conll or rows.is_named)
    return is_table and is_word_table(file, rows.sentence, has_header=how.has_header)


def _of_word_rows(file: Path, rows: WordsAsked, how: RowFiles) -> Iterator[Unit]:
    """Sentences of a table that is laid out as the one learned from."""
    found = tables.columns(file, has_header=how.has_header)
    document = rows.document if rows.document in found else ""
    columns = WordColumns(words=rows.words[0], tags=None, sentence=rows.sentence, document=document)
    faults: list[str] = []
    reader = WordRows(file, columns, has_header=how.has_header)
    read = reader.sentences(faults.append if how.skip_malformed else refuse)
    yield from in_documents(_beside_faults(_entries(read, rows), faults))


def _entries(read: Iterable[TaggedSentence], rows: WordsAsked) -> Iterator[tuple[Entry, int]]:
    """Sentences as they are asked."""
    blank = "" if rows.by_character else " "
    for each in read:
        asked = TextToTag.of_words(each.words, blank, document=each.document, place=each.place)
        yield Entry(place=each.place, asked=asked), 0


def _beside_faults(
    read: Iterable[tuple[Entry, int]], faults: list[str]
) -> Iterator[tuple[Entry, int]]:
    """Every row, those that are broken too, in the file's order."""
    num_bytes = 0
    for entry, read_so_far in read:
        yield from ((broken(fault), num_bytes) for fault in faults)
        faults.clear()
        num_bytes = read_so_far
        yield entry, num_bytes
    yield from ((broken(fault), num_bytes) for fault in faults)


class _Reader:
    """One file's rows."""

    def __init__(self, file: Path, rows: AskedRows, how: RowFiles) -> None:
        self._file, self._rows, self._how = file, rows, how

    def of_lines(self) -> Iterator[Unit]:
        """Of plain text."""
        self.refuse_to_keep("plain text")
        for row in tables.rows(self._file, [TEXT]):
            yield [self._entry(row, self._of_line)], row.bytes_read

    def of_table(self) -> Iterator[Unit]:
        """Of CSV, TSV, JSONL and Parquet."""
        found = tables.columns(self._file, has_header=self._how.has_header)
        columns = self._rows.columns(found)
        self._require(columns.names, found)
        self._require(self._how.keep, found, to="keep with --keep")
        names = tuple(dict.fromkeys((*columns.names, *self._how.keep)))
        faults: list[str] = []
        if self._how.skip_malformed and tables.table_format(self._file) == "jsonl":
            read = self._objects(faults.append)
        else:
            read = tables.rows(
                self._file,
                names,
                has_header=self._how.has_header,
                on_malformed=faults.append if self._how.skip_malformed else None,
            )
        asked = self._whole(columns)
        entries = ((self._entry(row, asked), row.bytes_read) for row in read)
        yield from in_documents(_beside_faults(entries, faults))

    def of_pipe(self) -> Iterator[Unit]:
        """Of lines as they come: texts, or JSON objects."""
        if self._how.is_conll and isinstance(self._rows, WordsAsked):
            raise ValueError("--conll reads files, and no pipe: name one with --file")
        is_text = self._how.piped == "lines"
        if is_text:
            self.refuse_to_keep("plain text")
        for number, (place, line, num_bytes) in enumerate(piped_lines(self._file)):
            if is_text or line.strip():
                yield [self._piped(place, number, line, num_bytes)], num_bytes

    def _piped(self, place: str, number: int, line: str, num_bytes: int) -> Entry:
        values: Mapping[str, object] = {TEXT: line}
        try:
            if self._how.piped == "jsonl":
                values = json_object(line, place)
            elif isinstance(self._rows, WordsAsked) and is_word_and_tag(line, self._rows.tags):
                raise ValueError(
                    f"{place}: {line!r:.60} is a word and its tag: name the file with --file, "
                    f"which reads CoNLL's columns; a pipe holds texts"
                )
        except ValueError as fault:
            if not self._how.skip_malformed:
                raise
            return broken(str(fault))
        row = Row(place=place, number=number, values=values, bytes_read=num_bytes)
        return self._entry(row, self._of_object if self._how.piped == "jsonl" else self._of_line)

    def _objects(self, on_malformed: Callable[[str], None]) -> Iterator[Row]:
        """Whole: of one that lacks a field the others can be kept."""
        read = json_objects(self._file, on_malformed)
        for number, (line, position, values) in enumerate(read):
            if values is not None:
                place = f"{self._file}:{line}"
                yield Row(place=place, number=number, values=values, bytes_read=position)

    def _whole(self, columns: Columns) -> Reader:
        """Reads a row; raises ValueError for one that lacks what is read."""

        def read(row: Row) -> Asked:
            self._require(columns.names, tuple(row.values), row.place)
            return columns.read(row)

        return read

    def _entry(self, row: Row, asked: Reader) -> Entry:
        kept = {name: row.values[name] for name in self._how.keep if name in row.values}
        try:
            return Entry(place=row.place, asked=asked(row), kept=kept)
        except ValueError as fault:
            if not (self._how.skip_malformed or isinstance(fault, UnusableRow)):
                raise
            return Entry(place=row.place, asked=None, fault=str(fault), kept=kept)

    def _of_line(self, row: Row) -> Asked:
        line = row.text(TEXT)
        if not line.strip():
            raise UnusableRow(f"{row.place}: the line is empty")
        fields = [line] if self._rows.takes_one else line.split("\t")
        return self._rows.of_fields(fields, row.place)

    def _of_object(self, row: Row) -> Asked:
        columns = self._rows.columns(tuple(row.values))
        kept = () if self._how.skip_malformed else self._how.keep
        self._require(columns.names, tuple(row.values), row.place)
        self._require(kept, tuple(row.values), row.place, to="keep with --keep")
        return columns.read(row)

    def _require(
        self,
        names: Sequence[str],
        found: Sequence[str],
        place: str = "",
        to: str = "read with --columns",
    ) -> None:
        missing = [name for name in names if name not in found]
        if missing:
            near = difflib.get_close_matches(missing[0], found, n=1)
            told = f"did you mean {near[0]!r}? " if near else ""
            raise ValueError(
                f"{place or self._file}: no column {missing[0]!r}; {told}the columns are "
                f"{', '.join(map(repr, found)):.200}: name those to {to}"
                f"{'' if place else tables.misread(self._file, found, missing[0])}"
            )

    def refuse_to_keep(self, what: str) -> None:
        """Raises ValueError where columns are to be kept of a file that has none of a name."""
        if self._how.keep:
            raise ValueError(
                f"--keep names columns, and {self._file} is {what}, which has none of a name: "
                f"leave it out"
            )
