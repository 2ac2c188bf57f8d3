"""A file in SQuAD's JSON -> its questions, each with its passage and its answers.

SQuAD 1.1 and 2.0, KorQuAD, XQuAD and whatever else is written so. Answers are checked against the
passage here: what does not stand where the file says is told, and found again where it can be.

Source: Rajpurkar et al. 2016 and 2018; the files of the SQuAD explorer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bertsmith.reading.compressed import open_members, text_blocks
from bertsmith.reading.faults import refuse

Kind = TypeVar("Kind")

_IMPOSSIBLE = re.compile(r'"is_impossible"\s*:\s*true\b')
_KORQUAD = re.compile(r'"version"\s*:\s*"KorQuAD', re.IGNORECASE)
_LONGEST_MARK = 100
"""Characters: more than any of the marks has."""


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
    lost: tuple[str, ...] = ()
    """Answers of the file that stand nowhere in the passage, and are none of `answers`."""

    @property
    def gold(self) -> tuple[str, ...]:
        """The texts that are right, wherever they stand: an evaluator compares nothing else."""
        return (*(answer.text for answer in self.answers), *self.lost)

    @property
    def is_lost(self) -> bool:
        """Whether it has answers and none to learn: not to be taken for one without an answer."""
        return not self.answers and bool(self.lost)


@dataclass(frozen=True, kw_only=True)
class Marks:
    """What a file says of itself."""

    has_unanswerable: bool
    """Whether questions are marked as impossible to answer, as in SQuAD 2.0."""
    is_korquad: bool
    """Whether its version is one of KorQuAD."""


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
    impossible_answered: tuple[str, ...] = ()
    """Places of questions that are marked as impossible and have answers: these are left out."""
    possible_unanswered: tuple[str, ...] = ()
    """Places of questions that are not so marked and have no answers: nothing answers them."""


def read_questions(path: Path, on_malformed: Callable[[str], None] = refuse) -> Questions:
    """Reads a whole file, compressed or not.

    A question with an answer that is none, one whose id stands there already, and a passage that is
    none are told to `on_malformed`, and left out.

    Raises FileNotFoundError; ValueError, with the place in the file, for what is not SQuAD's JSON,
    for a file without questions, and for what nobody is told of.
    """
    reader = _Reader(path, on_malformed)
    found = list(reader.questions())
    first_of: dict[str, Question] = {}
    for question in found:
        if (first := first_of.setdefault(question.key, question)) is not question:
            on_malformed(f"{question.place}: id {question.key!r} stands at {first.place} too")
    if not first_of:
        raise ValueError(f"{path}: no questions in it")
    return Questions(
        questions=tuple(first_of.values()),
        num_moved=reader.num_moved,
        lost=tuple(reader.lost),
        has_unanswerable=reader.has_unanswerable,
        impossible_answered=tuple(reader.impossible_answered),
        possible_unanswered=tuple(reader.possible_unanswered),
    )


def marks_of(path: Path) -> Marks:
    """Looks for the marks alone, in a fifth of the time of reading the file.

    Raises FileNotFoundError, and ValueError for bytes that are no text.
    """
    _require_file(path)
    has_unanswerable = is_korquad = False
    for member in open_members(path):
        rest = ""
        for block in text_blocks(member):
            text = rest + block
            has_unanswerable = has_unanswerable or bool(_IMPOSSIBLE.search(text))
            is_korquad = is_korquad or bool(_KORQUAD.search(text))
            rest = text[-_LONGEST_MARK:]
    return Marks(has_unanswerable=has_unanswerable, is_korquad=is_korquad)


def located(passage: str, text: str, start: int) -> Answer | None:
    """The answer at `start`, or where its text stands nearest; None where it stands nowhere."""
    if start < 0 or not passage.startswith(text, start):
        start = _nearest(passage, text, start)
    return Answer(text=text, start=start) if start >= 0 else None


class _Reader:
    def __init__(self, path: Path, on_malformed: Callable[[str], None]) -> None:
        self.path = path
        self.on_malformed = on_malformed
        self.num_moved = 0
        self.lost: list[str] = []
        self.has_unanswerable = False
        self.impossible_answered: list[str] = []
        self.possible_unanswered: list[str] = []

    def questions(self) -> Iterator[Question]:
        place = f"{self.path}: "
        content = _json(self.path)
        if not isinstance(content, dict):
            raise ValueError(
                f"{self.path}: expected SQuAD's JSON, an object with 'data', a list of articles; "
                f"found {type(content).__name__} {content!s:.40}. A list of rows is read from "
                f".jsonl, a row a line"
            )
        for article_number, article in enumerate(_field(content, "data", list, str(self.path))):
            at = f"{place}data[{article_number}]"
            for number, paragraph in enumerate(self._paragraphs(article, at)):
                yield from self._of_paragraph(paragraph, f"{at}.paragraphs[{number}]")

    def _paragraphs(self, article: object, at: str) -> list[object]:
        try:
            return _field(_expect(article, dict, at), "paragraphs", list, at)
        except ValueError as fault:
            self.on_malformed(str(fault))
        return []

    def _of_paragraph(self, paragraph: object, at: str) -> Iterator[Question]:
        try:
            record = _expect(paragraph, dict, at)
            passage = _field(record, "context", str, at)
            asked = _field(record, "qas", list, at)
        except ValueError as fault:
            self.on_malformed(str(fault))
            return
        for number, value in enumerate(asked):
            try:
                question = self._question(value, passage, f"{at}.qas[{number}]")
            except ValueError as fault:
                self.on_malformed(str(fault))
            else:
                yield question

    def _question(self, value: object, passage: str, place: str) -> Question:
        question = _expect(value, dict, place)
        text = _field(question, "question", str, place)
        listed = self._listed(question, place)
        found = {at: located(passage, *answer) for at, answer in listed.items()}
        answers = [answer for answer in found.values() if answer is not None]
        self.lost += [at for at, answer in found.items() if answer is None]
        self.num_moved += sum(
            answer is not None and answer.start != listed[at][1] for at, answer in found.items()
        )
        return Question(
            key=str(question.get("id", place)),
            question=text,
            passage=passage,
            answers=tuple(answers),
            place=place,
            lost=tuple(listed[at][0] for at, answer in found.items() if answer is None),
        )

    def _listed(self, question: Mapping[str, object], place: str) -> dict[str, tuple[str, int]]:
        """Each answer's place, its text, and where the file says that it stands."""
        if question.get("is_impossible"):
            self.has_unanswerable = True
            if question.get("answers"):
                self.impossible_answered.append(place)
            return {}
        listed = {}
        for number, value in enumerate(_expect(question.get("answers", []), list, place)):
            at = f"{place}.answers[{number}]"
            answer = _expect(value, dict, at)
            text, start = _field(answer, "text", str, at), _field(answer, "answer_start", int, at)
            if not text.strip():
                raise ValueError(f"{at}: the answer is empty")
            listed[at] = text, start
        if not listed:
            self.possible_unanswered.append(place)
        return listed


def _nearest(passage: str, text: str, start: int) -> int:
    """Where the text stands nearest to `start`; -1 where it does not."""
    before = passage.rfind(text, 0, max(0, start) + len(text))
    behind = passage.find(text, max(0, start))
    found = [place for place in (before, behind) if place >= 0]
    return min(found, key=lambda place: abs(place - start), default=-1)


def _json(path: Path) -> object:
    _require_file(path)
    for member in open_members(path):
        text = "".join(text_blocks(member))
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}: not JSON ({error})") from error
    raise ValueError(f"{path}: the file is empty")


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")


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
