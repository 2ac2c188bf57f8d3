"""A file of questions about passages -> examples whose answers stand in their passage.

SQuAD's JSON, or rows of a table, as `question_rows` reads them. A question whose answers stand
nowhere in its passage, and one without text or passage, is not to be learned. Where it is scored it
counts, as the official evaluators count every question of their file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bertsmith.reading.counted import counted
from bertsmith.reading.detect import suffix_of
from bertsmith.reading.squad_json import (
    Question,
    Questions,
    marks_of,
    read_questions,
)
from bertsmith.reading.tables import table_format
from bertsmith.tasks import given
from bertsmith.tasks.own.files import (
    FileOptions,
    LeftOut,
    OwnFile,
    whole,
)
from bertsmith.tasks.own.question_rows import (
    QuestionColumns,
    QuestionRows,
    has_row_without_answer,
)
from bertsmith.tasks.own.split import content_of
from bertsmith.tasks.own.summary import Summary, lengths_of, summarised
from bertsmith.tasks.squad_scores import SquadVersion

_SQUAD_SUFFIXES = (".json", "")


def read(
    path: Path, columns: QuestionColumns | None = None, options: FileOptions | None = None
) -> OwnFile[Question]:
    """The questions of a file; those that cannot be learned are told in `unlearnable`.

    Raises as `read_questions` and `QuestionRows.read` do, and ValueError for other files.
    """
    options = options or FileOptions()
    if is_squad_json(path):
        faults = LeftOut(options)
        file = read_questions(path, faults.malformed)
        examples, num_moved, num_found = list(file.questions), file.num_moved, 0
        told: tuple[str, ...]
        left_out, told = faults.faults, tuple(_contradictions(file))
    else:
        _require_rows(path)
        reader = QuestionRows(path, columns or QuestionColumns(), options)
        read_file = reader.read()
        examples = list(read_file.examples)
        num_moved, num_found = reader.num_moved, reader.num_found
        left_out, told = list(read_file.left_out), read_file.notes
    faults_of = ((number, _fault(each)) for number, each in enumerate(examples))
    unlearnable = {number: fault for number, fault in faults_of if fault}
    notes = (*told, *_notes(examples, num_moved, num_found))
    return replace(whole(path, examples, left_out, notes), unlearnable=unlearnable)


def version_of(
    paths: Sequence[Path], columns: QuestionColumns | None = None, *, has_header: bool = True
) -> SquadVersion:
    """Whose evaluator scores such files: 2.0's where one of them has questions without an answer.

    Looks no further than it must. Raises FileNotFoundError and ValueError for what is no such file.
    """
    is_korquad = False
    for path in paths:
        if is_squad_json(path):
            marks = marks_of(path)
            has_unanswerable, is_korquad = marks.has_unanswerable, is_korquad or marks.is_korquad
        else:
            asked = columns or QuestionColumns()
            has_unanswerable = has_row_without_answer(path, asked, has_header=has_header)
        if has_unanswerable:
            return "2.0"
    return "korquad" if is_korquad else "1.1"


def is_squad_json(path: Path) -> bool:
    """Whether the name says that it is one JSON object, and no line a question."""
    return path.is_file() and suffix_of(path.name) in _SQUAD_SUFFIXES


def has_rows(path: Path) -> bool:
    """Whether each row is a question. Raises as `tables.table_format` does."""
    return not is_squad_json(path) and table_format(path) != "text"


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


def _require_rows(path: Path) -> None:
    if not has_rows(path):
        raise ValueError(
            f"{path}: questions are read from SQuAD's .json, or from .csv, .tsv, .jsonl or "
            f".parquet with the columns id, question, context, answers and answer_start"
        )


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


def _notes(examples: Sequence[Question], num_moved: int, num_found: int) -> Iterator[str]:
    if num_moved:
        yield (
            f"{counted(num_moved, 'answer')} not where the file says, and found elsewhere in the "
            f"passage: moved"
        )
    if num_found:
        yield (
            f"{counted(num_found, 'answer')} of which the file does not say where: found by the "
            f"text, which stands in the passage once"
        )
    if num_partly := sum(bool(example.answers and example.lost) for example in examples):
        yield (
            f"{counted(num_partly, 'question')} with answers of which some stand nowhere in the "
            f"passage: these are not learned, and count where they are scored"
        )
