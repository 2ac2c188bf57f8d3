"""Rows and lines without labels -> questions of a task, as its labelled rows were read.

Where things stand in a row is said by whoever asks, else by what the model was trained on, else as
such files usually have it. A question with nothing to read is an `UnusableRow`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bertsmith.reading.counted import counted
from bertsmith.reading.squad_json import Question
from bertsmith.reading.tables import Row
from bertsmith.tasks.asked import Asked, TextToTag, text_to_tag
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.own import choices
from bertsmith.tasks.own.choices import ARC, ARC_OF_THE_HUB, SWAG, ChoiceColumns
from bertsmith.tasks.own.files import require_text
from bertsmith.tasks.own.words import words_of
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging

Reader = Callable[[Row], Asked]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """What is read of a row."""

    names: tuple[str, ...]
    read: Reader


@dataclass(frozen=True, kw_only=True)
class TextsAsked:
    """Texts or pairs to classify."""

    texts: tuple[str, ...]

    @property
    def takes_one(self) -> bool:
        """Whether a line, or an argument, is a question by itself; else it is parted at tabs."""
        return len(self.texts) == 1

    def of_fields(self, fields: Sequence[str], place: str) -> TextExample:
        """A text or the two of a pair."""
        if len(fields) != len(self.texts):
            wanted = " and ".join(self.texts)
            told = counted(len(fields), "text")
            raise ValueError(f"{place}: {told}, expected {len(self.texts)}: {wanted}")
        read = (require_text(*each) for each in _named(fields, self.texts, place))
        return TextExample(texts=tuple(read), labels=None, place=place)

    def columns(self, found: Sequence[str]) -> Columns:
        """Of a file with these columns."""
        return Columns(names=self.texts, read=lambda row: self.of_fields(
            [row.text(name) for name in self.texts], row.place
        ))  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WordsAsked:
    """Texts or lists of words to tag."""

    words: tuple[str, ...]
    """Where they may stand: the first column that a file has."""
    document: str
    """A column that is equal for sentences of one document; empty: each row is one."""
    by_character: bool
    is_one_document: bool = False
    """Whether a file of CoNLL's columns that marks no documents is one, not each sentence alone."""
    sentence: str = ""
    """Of rows of a word each, the column of their sentence; empty where none was learned from."""
    is_named: bool = False
    """Whether a person said where they stand."""
    tags: tuple[str, ...] = ()
    """Those that a model gives, by which lines of words and tags are known."""
    takes_one: bool = True

    def of_fields(self, fields: Sequence[str], place: str) -> TextToTag:
        """A text of one document."""
        text = require_text(fields[0], place, "text")
        return text_to_tag(text, 0, place, self.by_character)

    def columns(self, found: Sequence[str]) -> Columns:
        """Of a file with these columns."""
        name = next((name for name in self.words if name in found), self.words[0])
        has_document = bool(self.document) and self.document in found
        documents: dict[str, int] = {}

        def read(row: Row) -> TextToTag:
            value = row.values[name]
            if isinstance(value, list):
                blank = "" if self.by_character else " "
                asked = TextToTag.of_words(words_of(value, row.place), blank, place=row.place)
            else:
                asked = self.of_fields([row.text(name)], row.place)
            of = str(row.values[self.document]) if has_document else row.place
            return replace(asked, document=documents.setdefault(of, len(documents)))

        return Columns(names=(name, *([self.document] if has_document else [])), read=read)


@dataclass(frozen=True, kw_only=True)
class QuestionsAsked:
    """Questions about passages."""

    question: str
    passage: str
    key: str
    """A column of ids, where a file has it."""
    takes_one: bool = False

    def of_fields(self, fields: Sequence[str], place: str, key: str = "") -> Question:
        """A question and its passage."""
        names = (self.question, self.passage)
        if len(fields) != len(names):
            raise ValueError(
                f"{place}: {counted(len(fields), 'text')}, expected two: a question, then its "
                f"passage"
            )
        question, passage = (require_text(*each) for each in _named(fields, names, place))
        return Question(
            key=key or place, question=question, passage=passage, answers=(), place=place
        )

    def columns(self, found: Sequence[str]) -> Columns:
        """Of a file with these columns."""
        has_key = self.key in found
        names = (self.question, self.passage)

        def read(row: Row) -> Question:
            key = str(row.values[self.key]) if has_key else row.place
            return self.of_fields([row.text(name) for name in names], row.place, key)

        return Columns(names=(*names, *([self.key] if has_key else [])), read=read)


@dataclass(frozen=True, kw_only=True)
class ChoicesAsked:
    """Texts and what may follow each."""

    layouts: tuple[ChoiceColumns, ...]
    """Where they may stand: the first of which a file has every column."""
    takes_one: bool = False

    def of_fields(self, fields: Sequence[str], place: str) -> ChoiceExample:
        """A text, then its choices."""
        if len(fields) < 3:
            raise ValueError(
                f"{place}: {counted(len(fields), 'text')}, expected at least three: a text and its "
                f"choices"
            )
        text, *others = (
            require_text(field, place, f"text {number}")
            for number, field in enumerate(fields, start=1)
        )
        return ChoiceExample(text=text, choices=tuple(others), label=None, place=place)

    def columns(self, found: Sequence[str]) -> Columns:
        """Of a file with these columns."""
        layouts = [(layout, *choices.reader(layout, found)) for layout in self.layouts]
        whole = (each for each in layouts if set(each[1]) <= set(found))
        _, names, read = next(whole, layouts[0])
        return Columns(names=names, read=read)


AskedRows = TextsAsked | WordsAsked | QuestionsAsked | ChoicesAsked


def rows_of(task: AnyTask, learned: Mapping[str, object], named: Sequence[str]) -> AskedRows:
    """How rows are read: by the columns `named`, else those `learned` from (`stored.Learned`).

    Raises ValueError for names that are too few or too many for the task.
    """
    _require_number(task, named)
    match task:
        case Classification():
            return TextsAsked(texts=tuple(named) or _texts(learned, "texts") or ("text",))
        case Tagging():
            return WordsAsked(
                words=tuple(named) or (*_texts(learned, "words"), "tokens", "words", "text"),
                document=_text(learned, "document", ""),
                sentence=_text(learned, "sentence", ""),
                by_character=task.scheme.is_by_character,
                is_one_document=learned.get("is_one_document") is True,
                is_named=bool(named),
                tags=task.scheme.labels,
            )
        case SpanAnswering():
            question, passage = named or (
                _text(learned, "question", "question"), _text(learned, "passage", "context"),
            )  # fmt: skip
            key = _text(learned, "key", "id")
            return QuestionsAsked(question=question, passage=passage, key=key)
        case MultipleChoice():
            if named:
                text, *others = named
                own = ChoiceColumns(text=text, choices=tuple(others), label=None)
                return ChoicesAsked(layouts=(own,))
            layouts = (*_layouts(learned), SWAG, ARC_OF_THE_HUB, ARC)
            return ChoicesAsked(layouts=tuple(replace(each, label=None) for each in layouts))


def _require_number(task: AnyTask, named: Sequence[str]) -> None:
    few, many, told = {
        Classification: (1, 2, "one column of texts, or two of pairs"),
        Tagging: (1, 1, "one column, of texts or of lists of words"),
        SpanAnswering: (2, 2, "two columns: questions, then passages"),
        MultipleChoice: (2, None, "a column of texts, then one of lists, or one for each choice"),
    }[type(task)]
    if named and not few <= len(named) <= (many or len(named)):
        raise ValueError(f"--columns names {told}; found {len(named)}: {' '.join(named)}")


def _layouts(learned: Mapping[str, object]) -> list[ChoiceColumns]:
    said = _texts(learned, "choices")
    if not said:
        return []
    text, begun = _text(learned, "text", ""), _text(learned, "begun", "")
    return [ChoiceColumns(text=text, begun=begun, choices=said)]


def _text(learned: Mapping[str, object], name: str, default: str) -> str:
    said = learned.get(name)
    return said if isinstance(said, str) and said else default


def _texts(learned: Mapping[str, object], name: str) -> tuple[str, ...]:
    said = learned.get(name)
    listed = [said] if isinstance(said, str) else said
    return tuple(map(str, listed)) if isinstance(listed, list | tuple) else ()


def _named(fields: Sequence[str], names: Sequence[str], place: str) -> list[tuple[str, str, str]]:
    """What `require_text` takes of each."""
    return [(field, place, name) for field, name in zip(fields, names, strict=True)]
