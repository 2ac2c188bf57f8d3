"""A file of questions about passages -> examples whose answers stand in their passage.

SQuAD's JSON, or JSONL and Parquet in the Hub's layout: a row a question, `answers` with `text` and
`answer_start`, each a list. A question whose answers stand nowhere in its passage, and one without
text or passage, is not to be learned. Where it is scored it counts, as the official evaluators
count every question of their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.reading.counted import counted
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.squad_json import (
    Question,
    Questions,
    located,
    marks_of,
    read_questions,
)
from bertsmith.reading.tables import Row, rows, table_format
from bertsmith.tasks import given
from bertsmith.tasks.own.fields import pairs_of
from bertsmith.tasks.own.files import (
    FileOptions,
    LeftOut,
    OwnFile,
    read_rows,
    whole,
)
from bertsmith.tasks.own.split import content_of
from bertsmith.tasks.own.summary import Summary, lengths_of, summarised
from bertsmith.tasks.squad_scores import SquadVersion

_SQUAD_SUFFIXES = (".json", "")


@dataclass(frozen=True, kw_only=True)
class QuestionColumns:
    """Where things stand in a row; SQuAD's JSON has its own names."""

    key: str = "id"
    """Ids, which must be unique; empty for none: a question is then called by its place."""
    question: str = "question"
    passage: str = "context"
    answers: str | None = "answers"
    """None for questions to predict on."""


def read(
    path: Path, columns: QuestionColumns | None = None, options: FileOptions | None = None
) -> OwnFile[Question]:
    """The questions of a file; those that cannot be learned are told in `unlearnable`.

    Raises as `read_questions` and `read_rows` do.
    """
    options = options or FileOptions()
    if is_squad_json(path):
        faults = LeftOut(options)
        file = read_questions(path, faults.malformed)
        examples, num_moved = list(file.questions), file.num_moved
        told: tuple[str, ...]
        left_out, told = faults.faults, tuple(_contradictions(file))
    else:
        reader = _Rows(path, columns or QuestionColumns())
        read_file = reader.read(options)
        examples, num_moved = list(read_file.examples), reader.num_moved
        left_out, told = list(read_file.left_out), read_file.notes
    faults_of = ((number, _fault(each)) for number, each in enumerate(examples))
    unlearnable = {number: fault for number, fault in faults_of if fault}
    notes = (*told, *_notes(examples, num_moved))
    return replace(whole(path, examples, left_out, notes), unlearnable=unlearnable)


def version_of(paths: Sequence[Path], columns: QuestionColumns | None = None) -> SquadVersion:
    """Whose evaluator scores such files: 2.0's where one of them has questions without an answer.

    Looks no further than it must. Raises FileNotFoundError and ValueError for what is no such file.
    """
    is_korquad = False
    for path in paths:
        if is_squad_json(path):
            marks = marks_of(path)
            has_unanswerable, is_korquad = marks.has_unanswerable, is_korquad or marks.is_korquad
        else:
            has_unanswerable = _has_row_without_answer(path, columns or QuestionColumns())
        if has_unanswerable:
            return "2.0"
    return "korquad" if is_korquad else "1.1"


def is_squad_json(path: Path) -> bool:
    """Whether the name says that it is one JSON object, and no line a question."""
    return path.is_file() and suffix_of(path.name) in _SQUAD_SUFFIXES


def has_rows(path: Path) -> bool:
    """Whether each row is a question. Raises as `tables.table_format` does."""
    return not is_squad_json(path) and table_format(path) in ("jsonl", "parquet")


def contents(examples: Sequence[Question]) -> list[str]:
    """What keeps questions on one side of a split: their passage."""
    passages = dict.fromkeys(example.passage for example in examples)
    found = {passage: content_of(passage) for passage in passages}
    return [found[example.passage] for example in examples]


def balance(examples: Sequence[Question]) -> str:
    """A line on how many passages there are, and how many questions without an answer."""
    num_passages = len({example.passage for example in examples})
    num_without = sum(not example.gold for example in examples)
    without = counted(num_without, "question")
    share = num_without / len(examples)
    return f"{counted(num_passages, 'passage')}; {without} without an answer ({share:.1%})"


def summary(file: OwnFile[Question]) -> Summary:
    """What was read."""
    passages = dict.fromkeys(example.passage for example in file.examples)
    answers = [answer for example in file.examples for answer in example.gold]
    lengths = [
        lengths_of("characters of a passage", map(len, passages)),
        lengths_of("characters of a question", (len(each.question) for each in file.examples)),
    ]
    if answers:
        lengths.append(lengths_of("characters of an answer", map(len, answers)))
    return summarised(
        file,
        balance=balance(file.examples),
        lengths=lengths,
    )


def _has_row_without_answer(path: Path, columns: QuestionColumns) -> bool:
    if columns.answers is None:
        return False
    listed = (
        row.values[columns.answers]
        for row in rows(path, [columns.answers], on_malformed=lambda fault: None)
    )
    return any(not (each.get("text") if isinstance(each, Mapping) else each) for each in listed)


class _Rows:
    """Rows in the Hub's layout."""

    def __init__(self, path: Path, columns: QuestionColumns) -> None:
        self._path = path
        self._columns = columns
        self._passages: dict[str, str] = {}
        self.num_moved = 0

    def read(self, options: FileOptions) -> OwnFile[Question]:
        """Every row's question; raises ValueError for other files, and as `read_rows` does."""
        if not has_rows(self._path):
            raise ValueError(
                f"{self._path}: questions are read from SQuAD's .json, or from .jsonl or .parquet "
                f"with the columns id, question, context, answers"
            )
        columns = self._columns
        names = [columns.question, columns.passage, *([columns.answers] if columns.answers else [])]
        return read_rows(self._path, names, self._question, options, columns.key)

    def _question(self, row: Row) -> Question:
        columns, place = self._columns, row.place
        question, passage = row.text(columns.question), row.text(columns.passage)
        passage = self._passages.setdefault(passage, passage)
        listed = _answers(row.values[columns.answers], place) if columns.answers else []
        found = [located(passage, text, start) for text, start in listed]
        answers = tuple(answer for answer in found if answer is not None)
        self.num_moved += sum(
            answer is not None and answer.start != start
            for answer, (_, start) in zip(found, listed, strict=True)
        )
        return Question(
            key=str(row.values[columns.key]) if columns.key else place,
            question=question,
            passage=passage,
            answers=answers,
            place=place,
            lost=tuple(
                text for (text, _), answer in zip(listed, found, strict=True) if answer is None
            ),
        )


def _answers(value: object, place: str) -> list[tuple[str, int]]:
    """Texts and starts, of a mapping of two lists or a list of mappings; of null none."""
    listed = [] if value is None else pairs_of(value, "text", "answer_start")
    if listed is None:
        raise ValueError(
            f"{place}: answers must hold text and answer_start, lists of one length, found "
            f"{value!s:.80}"
        )
    return [_answer(text, start, place) for text, start in listed]


def _answer(text: object, start: object, place: str) -> tuple[str, int]:
    if not isinstance(text, str) or not isinstance(start, int) or isinstance(start, bool):
        raise ValueError(
            f"{place}: an answer is a text and the number of its first character, found "
            f"{text!r:.40} and {start!r:.20}"
        )
    if not text.strip():
        raise ValueError(f"{place}: an answer is empty; a question without one has empty lists")
    return given.text(text, f"{place}: an answer"), start


def _fault(question: Question) -> str:
    """Why nothing can be learned of it, with its place; empty where something can."""
    for name, text in (("question", question.question), ("passage", question.passage)):
        if not given.is_readable(text):
            return f"{question.place}: the {name} is empty"
    if not question.is_lost:
        return ""
    if len(question.lost) == 1:
        return f"{question.place}: its answer {question.lost[0]!r:.40} is not in the passage"
    return f"{question.place}: none of its {len(question.lost):,} answers is in the passage"


def _contradictions(file: Questions) -> Iterator[str]:
    """A line for each of the two ways in which a question's mark and its answers differ."""
    for places, found in (
        (file.impossible_answered, "is_impossible, and with answers, which are left out"),
        (file.possible_unanswered, "not is_impossible, and without answers: taken to have none"),
    ):
        if places:
            first = places[0].rpartition(": ")[2]
            number = counted(
                len(places), "question contradicts itself", "questions contradict themselves"
            )
            yield f"{number} ({first}{' first' if places[1:] else ''}): {found}"


def _notes(examples: Sequence[Question], num_moved: int) -> Iterator[str]:
    if num_moved:
        yield (
            f"{counted(num_moved, 'answer')} not where the file says, and found elsewhere in the "
            f"passage: moved"
        )
    if num_partly := sum(bool(example.answers and example.lost) for example in examples):
        yield (
            f"{counted(num_partly, 'question')} with answers of which some stand nowhere in the "
            f"passage: these are not learned, and count where they are scored"
        )
