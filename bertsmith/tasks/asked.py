"""What a person asks of a task, in Python -> questions as the task reads them.

Nothing is known of what is right. Files are read elsewhere; what no model could read is refused
here, with the number of the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Question
from bertsmith.tasks import given
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.words_of_text import Span, word_spans
from bertsmith.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True, slots=True)
class TextToTag:
    """A text and its words."""

    text: str
    spans: tuple[Span, ...]
    """The characters of each word, in order."""
    document: int = 0
    """What is read together: sentences that follow each other with the same number."""
    place: str = ""

    @classmethod
    def of_words(
        cls, words: Sequence[str], blank: str, *, document: int = 0, place: str = ""
    ) -> TextToTag:
        """Words that were handed in one by one, `blank` between them."""
        lengths = [len(word) + len(blank) for word in words]
        starts = list(accumulate(lengths, initial=0))
        spans = tuple((start, end - len(blank)) for start, end in pairwise(starts))
        return cls(text=blank.join(words), spans=spans, document=document, place=place)

    @property
    def sentence(self) -> TaggedSentence:
        """As the task reads it."""
        words = tuple(self.text[start:end] for start, end in self.spans)
        return TaggedSentence(place=self.place, words=words, tags=None, document=self.document)


Asked = TextExample | TextToTag | Question | ChoiceExample
"""A question of any task."""


def texts_to_classify(texts: Iterable[str | tuple[str, str]]) -> list[TextExample]:
    """Texts, or pairs of texts. Raises TypeError and ValueError as `given` does."""
    examples = []
    for number, each in enumerate(_listed(texts, "classify", "text"), start=1):
        sides = [each] if isinstance(each, str) else each
        place = f"text {number}"
        if isinstance(sides, bytes) or not isinstance(sides, Sequence) or not 1 <= len(sides) <= 2:
            raise ValueError(f"{place}: expected a text or a pair of texts, found {each!r:.60}")
        read = tuple(given.text(side, place) for side in sides)
        examples.append(TextExample(texts=read, labels=None, place=place))
    return examples


def texts_to_tag(texts: Iterable[str | Sequence[str]], *, by_character: bool) -> list[TextToTag]:
    """Texts, each a document of its own, or lists of words; raises as `texts_to_classify` does."""
    blank = "" if by_character else " "
    asked = []
    for number, each in enumerate(_listed(texts, "tag", "text"), start=1):
        place = f"text {number}"
        if isinstance(each, str):
            asked.append(text_to_tag(given.text(each, place), number, place, by_character))
        else:
            words = given.texts(each, "tag", "word")  # type: ignore[arg-type]
            asked.append(TextToTag.of_words(words, blank, document=number, place=place))
    return asked


def text_to_tag(text: str, document: int, place: str, by_character: bool) -> TextToTag:
    """A text in its words."""
    spans = tuple(word_spans(text, by_character=by_character))
    return TextToTag(text=text, spans=spans, document=document, place=place)


def questions_of(pairs: Iterable[tuple[str, str]]) -> list[Question]:
    """(question, passage), each question called by its number from 1.

    Raises as `given` does, and ValueError for a question of which nothing can be read.
    """
    listed = given.pairs(pairs, "answer")
    for number, (question, _) in enumerate(listed, start=1):
        if not given.is_readable(question):
            raise ValueError(f"question {number}: no word in the question {question!r}")
    return [
        Question(
            key=str(number),
            question=question,
            passage=passage,
            answers=(),
            place=f"question {number}",
        )
        for number, (question, passage) in enumerate(listed, start=1)
    ]


def choices_of(questions: Iterable[tuple[str, Sequence[str]]]) -> list[ChoiceExample]:
    """(text, choices); raises as `given` does."""
    return [
        ChoiceExample(
            text=given.text(text, f"text {number}"),
            choices=tuple(given.texts(choices, f"the choices of text {number}", "choice")),
            label=None,
            place=f"text {number}",
        )
        for number, (text, choices) in enumerate(questions, start=1)
    ]


def unreadable(asked: Asked, tokenizer: Tokenizer) -> str:
    """Why nothing would be read of a side of the question; empty where all have a token."""
    # Of words to tag there may be none.
    for text in () if isinstance(asked, TextToTag) else texts_of(asked):
        # A letter or a digit is always a token, if only [UNK]: most texts need no second look.
        if not any(map(str.isalnum, text)):
            _, counts = tokenizer.ids([text])
            if not counts[0]:
                return f"{given.short(text)} has no token: nothing in it can be read"
    return ""


def texts_of(asked: Asked) -> tuple[str, ...]:
    """All that a model reads of it."""
    match asked:
        case TextExample():
            return asked.texts
        case Question():
            return asked.question, asked.passage
        case ChoiceExample():
            return asked.text, *asked.choices
        case TextToTag():
            return (asked.text,)


def _listed(texts: Iterable[object], name: str, kind: str) -> list[object]:
    """Raises TypeError for one text alone, whose letters would be taken for texts, and for none."""
    expected = f"{name} expects a list of {kind}s"
    if isinstance(texts, str):
        raise TypeError(f"{expected}, found one: write {name}([{kind}])")
    return given.listed(texts, expected)
