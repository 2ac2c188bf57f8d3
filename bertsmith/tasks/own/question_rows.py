"""Rows of questions about passages -> examples: CSV, TSV, JSONL or Parquet, a row a question.

An answer is a text, with the number of its first character in a column beside it, or where that is
missing found in its passage; or a row lists its answers as the Hub's data sets do, `answers` with
`text` and `answer_start`. A row whose answer is empty is a question without one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.reading import tables
from bertsmith.reading.squad_json import Answer, Question, located
from bertsmith.reading.tables import Row
from bertsmith.tasks import given
from bertsmith.tasks.own.fields import pairs_of
from bertsmith.tasks.own.files import FileOptions, OwnFile, read_rows

_WHOLE_NUMBER = re.compile(r"(-?[0-9]+)(?:\.0+)?")
"""Also 4.0, as a column of numbers is written where a row has none."""


@dataclass(frozen=True, kw_only=True)
class QuestionColumns:
    """Where things stand in a row; SQuAD's JSON has its own names."""

    key: str = "id"
    """Ids, which must be unique; empty for none: a question is then called by its place."""
    question: str = "question"
    passage: str = "context"
    answers: str | None = "answers"
    """A text a row, or lists; `answer` where a file has no `answers`. None to predict on."""
    start: str = "answer_start"
    """Of answers that are texts, the number of the first character in the passage, from 0."""

    def of_file(self, path: Path, *, has_header: bool = True) -> QuestionColumns:
        """Those of a file, which needs no column of starts, and as CSV or TSV none of ids.

        Raises as `tables.columns` does.
        """
        found = tables.columns(path, has_header=has_header)
        default = QuestionColumns()
        answers, key = self.answers, self.key
        if answers == default.answers and answers not in found and _ONE_ANSWER in found:
            answers = _ONE_ANSWER
        if key == default.key and key not in found and tables.has_named_columns(path):
            key = ""
        return replace(
            self, key=key, answers=answers, start=self.start if self.start in found else ""
        )


_ONE_ANSWER = "answer"


class QuestionRows:
    """The questions of a file of rows, and what was read otherwise than it stands."""

    def __init__(self, path: Path, columns: QuestionColumns, options: FileOptions) -> None:
        """Raises as `QuestionColumns.of_file` does."""
        self._path = path
        self._columns = columns.of_file(path, has_header=options.has_header)
        self._options = options
        self._passages: dict[str, str] = {}
        self.num_moved = 0
        """Answers that stood elsewhere in the passage than the file says."""
        self.num_found = 0
        """Answers of which the file does not say where they stand, and that were found."""

    def read(self) -> OwnFile[Question]:
        """Every row's question; raises as `read_rows` does.

        An answer of which nothing says where it stands, and that stands there more than once, makes
        a row a broken one.
        """
        columns = self._columns
        names = [columns.question, columns.passage, *([columns.answers] if columns.answers else [])]
        starts = [columns.start] if columns.start and columns.answers else []
        return read_rows(self._path, names, self._question, self._options, columns.key, starts)

    def _question(self, row: Row) -> Question:
        columns, place = self._columns, row.place
        question, passage = row.text(columns.question), row.text(columns.passage)
        passage = self._passages.setdefault(passage, passage)
        listed = self._listed(row) if columns.answers else []
        found = [_located(passage, text, start, place) for text, start in listed]
        for answer, (_, start) in zip(found, listed, strict=True):
            self.num_moved += answer is not None and start is not None and answer.start != start
            self.num_found += answer is not None and start is None
        return Question(
            key=str(row.values[columns.key]) if columns.key else place,
            question=question,
            passage=passage,
            answers=tuple(answer for answer in found if answer is not None),
            place=place,
            lost=tuple(
                text for (text, _), answer in zip(listed, found, strict=True) if answer is None
            ),
        )

    def _listed(self, row: Row) -> list[tuple[str, int | None]]:
        """Texts and starts, as a text and its column, or as lists; of what is empty none."""
        columns, place = self._columns, row.place
        assert columns.answers
        value = row.values[columns.answers]
        if isinstance(value, str):
            if not value.strip():
                return []
            start = _start(row.values[columns.start], place) if columns.start else None
            return [(given.text(value, f"{place}: an answer"), start)]
        listed = [] if value is None else pairs_of(value, "text", "answer_start")
        if listed is None:
            raise ValueError(
                f"{place}: answers must hold text and answer_start, lists of one length, or be a "
                f"text, found {value!s:.80}"
            )
        return [_answer(text, start, place) for text, start in listed]


def has_row_without_answer(
    path: Path, columns: QuestionColumns, *, has_header: bool = True
) -> bool:
    """Whether a question has no answer; looks no further than it must.

    Raises FileNotFoundError and ValueError for what is no such file.
    """
    name = columns.of_file(path, has_header=has_header).answers
    if name is None:
        return False
    read = tables.rows(path, [name], has_header=has_header, on_malformed=lambda fault: None)
    return any(_is_empty(row.values[name]) for row in read)


def _is_empty(answers: object) -> bool:
    listed = answers.get("text") if isinstance(answers, Mapping) else answers
    return not (listed.strip() if isinstance(listed, str) else listed)


def _located(passage: str, text: str, start: int | None, place: str) -> Answer | None:
    """The answer; None where it stands nowhere.

    Raises ValueError, with the place, where it may be one of several.
    """
    if start is not None:
        return located(passage, text, start)
    first = passage.find(text)
    second = passage.find(text, first + 1) if first >= 0 else -1
    if second >= 0:
        raise ValueError(
            f"{place}: the answer {text!r:.40} stands in the passage more than once, at {first} "
            f"and at {second} first: say which is meant by the number of its first character, in "
            f"a column answer_start (--start-column)"
        )
    return Answer(text=text, start=first) if first >= 0 else None


def _start(value: object, place: str) -> int | None:
    """The number in a column of starts; None where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    spelt = str(value).strip()
    if not spelt:
        return None
    whole = _WHOLE_NUMBER.fullmatch(spelt)
    if whole is None or isinstance(value, bool):
        raise ValueError(
            f"{place}: an answer starts at the number of its first character in the passage, from "
            f"0, found {value!r:.20}"
        )
    return int(whole[1])


def _answer(text: object, start: object, place: str) -> tuple[str, int]:
    if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
        raise ValueError(
            f"{place}: an answer is a text and the number of its first character, found "
            f"{text!r:.40} and {start!r:.20}"
        )
    if not text.strip():
        raise ValueError(f"{place}: an answer is empty; a question without one has empty lists")
    return given.text(text, f"{place}: an answer"), start
