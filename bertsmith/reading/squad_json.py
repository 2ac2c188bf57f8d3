"""A file in SQuAD's JSON -> its questions, each with its passage and its answers.

SQuAD 1.1 and 2.0, KorQuAD, XQuAD and whatever else is written so. Answers are checked against the
passage here: what does not stand where the file says is told, and found again where it can be.

Source: Rajpurkar et al. 2016 and 2018; the files of the SQuAD explorer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bertsmith.reading.compressed import open_members, text_blocks

Kind = TypeVar("Kind")


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """A piece of the passage."""

    text: str
    start: int
    """Its first character in the passage."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a passage."""

    key: str
    """Its id, unique in the file."""
    question: str
    passage: str
    """Questions of one passage share it."""
    answers: tuple[Answer, ...]
    """None where the passage has no answer, and in files to predict on."""
    place: str
    """`file: data[0].paragraphs[1].qas[2]`, or `file:line` of a row."""
    num_lost: int = 0
    """Answers of the file that stand nowhere in the passage, and are none of `answers`."""

    @property
    def is_lost(self) -> bool:
        """Whether it had answers and none is left: not to be taken for one without an answer."""
        return not self.answers and self.num_lost > 0


@dataclass(frozen=True, kw_only=True)
class Questions:
    """What a file holds."""

    questions: tuple[Question, ...]
    num_moved: int
    """Answers that stood elsewhere in the passage than the file says, and were found."""
    lost: tuple[str, ...]
    """Places of answers that stand nowhere in their passage: left out."""
    has_unanswerable: bool
    """Whether the file marks questions as impossible to answer, as SQuAD 2.0 does."""


def read_questions(path: Path) -> Questions:
    """Reads a whole file, compressed or not.

    Raises FileNotFoundError; ValueError, with the place in the file, for what is not SQuAD's JSON,
    for a question without text, for ids that occur twice, and for a file without questions.
    """
    reader = _Reader(path)
    questions = tuple(reader.questions())
    if not questions:
        raise ValueError(f"{path}: no questions in it")
    first_of: dict[str, Question] = {}
    for question in questions:
        if (first := first_of.setdefault(question.key, question)) is not question:
            raise ValueError(f"{question.place}: id {question.key!r} stands at {first.place} too")
    return Questions(
        questions=questions,
        num_moved=reader.num_moved,
        lost=tuple(reader.lost),
        has_unanswerable=reader.has_unanswerable,
    )


def located(passage: str, text: str, start: int) -> Answer | None:
    """The answer at `start`, or where its text stands nearest; None where it stands nowhere."""
    if start < 0 or not passage.startswith(text, start):
        start = _nearest(passage, text, start)
    return Answer(text=text, start=start) if start >= 0 else None


class _Reader:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.num_moved = 0
        self.lost: list[str] = []
        self.has_unanswerable = False

    def questions(self) -> Iterator[Question]:
        place = f"{self.path}: "
        content = _expect(_json(self.path), dict, str(self.path))
        for article_number, article in enumerate(_field(content, "data", list, str(self.path))):
            at = f"{place}data[{article_number}]"
            paragraphs = _field(_expect(article, dict, at), "paragraphs", list, at)
            for number, paragraph in enumerate(paragraphs):
                yield from self._of_paragraph(paragraph, f"{at}.paragraphs[{number}]")

    def _of_paragraph(self, paragraph: object, at: str) -> Iterator[Question]:
        record = _expect(paragraph, dict, at)
        passage = _field(record, "context", str, at)
        for number, value in enumerate(_field(record, "qas", list, at)):
            place = f"{at}.qas[{number}]"
            question = _expect(value, dict, place)
            text = _field(question, "question", str, place)
            if not text.strip():
                raise ValueError(f"{place}: the question is empty")
            num_lost = len(self.lost)
            answers = tuple(self._answers(question, passage, place))
            yield Question(
                key=str(question.get("id", place)),
                question=text,
                passage=passage,
                answers=answers,
                place=place,
                num_lost=len(self.lost) - num_lost,
            )

    def _answers(
        self, question: Mapping[str, object], passage: str, place: str
    ) -> Iterator[Answer]:
        if question.get("is_impossible"):
            self.has_unanswerable = True
            return
        for number, value in enumerate(_expect(question.get("answers", []), list, place)):
            at = f"{place}.answers[{number}]"
            answer = _expect(value, dict, at)
            text, start = _field(answer, "text", str, at), _field(answer, "answer_start", int, at)
            if not text.strip():
                raise ValueError(f"{at}: the answer is empty")
            found = located(passage, text, start)
            if found is None:
                self.lost.append(at)
                continue
            self.num_moved += found.start != start
            yield found


def _nearest(passage: str, text: str, start: int) -> int:
    """Where the text stands nearest to `start`; -1 where it does not."""
    before = passage.rfind(text, 0, max(0, start) + len(text))
    behind = passage.find(text, max(0, start))
    found = [place for place in (before, behind) if place >= 0]
    return min(found, key=lambda place: abs(place - start), default=-1)


def _json(path: Path) -> object:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    for member in open_members(path):
        text = "".join(text_blocks(member))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON ({error})") from error
    raise ValueError(f"{path}: the file is empty")


def _field(record: Mapping[str, object], name: str, kind: type[Kind], place: str) -> Kind:
    if name not in record:
        found = ", ".join(map(repr, record)) or "nothing"
        raise ValueError(f"{place}: no field {name!r}, found {found}: not SQuAD's JSON")
    return _expect(record[name], kind, f"{place}.{name}")


def _expect(value: object, kind: type[Kind], place: str) -> Kind:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise ValueError(
            f"{place}: expected {kind.__name__}, found {type(value).__name__} {value!s:.40}"
        )
    return value
