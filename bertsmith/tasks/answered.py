"""Examples and what a model says of them -> answers with names, places and probabilities.

A value for each kind of task. How an answer is found stands in the file of its task, how it is
printed with the commands.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.reading.squad_json import Question
from bertsmith.tasks.asked import TextToTag
from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.entities import entities
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.tag_scheme import TagScheme

FloatArray = npt.NDArray[np.floating]


@dataclass(frozen=True, kw_only=True)
class ClassifiedText:
    """What a text, or a pair, is."""

    texts: tuple[str, ...]
    """One or two."""
    labels: tuple[str, ...]
    """The likeliest one; of several at once all above one half; none of a number."""
    probabilities: Mapping[str, float]
    """Of every label; none of a number."""
    value: float | None
    """The number, in regression."""
    is_multiple: bool
    """Whether any number of labels may be right at once."""
    num_unread: int
    """Tokens that did not fit."""

    @classmethod
    def of(
        cls, example: TextExample, answer: TextAnswer, scheme: LabelScheme, num_unread: int
    ) -> ClassifiedText:
        """The answer with the names of its scores."""
        is_number = scheme.problem == "regression"
        return cls(
            texts=example.texts,
            labels=() if is_number else answer.labels,
            probabilities={} if is_number else dict(zip(scheme.names, answer.scores, strict=True)),
            value=answer.scores[0] if is_number else None,
            is_multiple=scheme.problem == "multi_label",
            num_unread=num_unread,
        )


@dataclass(frozen=True, kw_only=True)
class FoundEntity:
    """A name in a text."""

    kind: str
    """`PER`, `LOC`, ..."""
    text: str
    start: int
    """Its first character."""
    end: int
    """Past its last one."""
    probability: float
    """That every word of it has the label it was given: the product of theirs."""


@dataclass(frozen=True, kw_only=True)
class TaggedWord:
    """A word and its tag."""

    text: str
    start: int
    end: int
    tag: str
    """Of an entity in a form that its dialect allows, whatever the model said: never I- behind O
    where B- is a label."""
    probability: float | None
    """Of the label that the model gave the word. None for a word that has no token of its own,
    whose tag follows from the words around it."""


@dataclass(frozen=True, kw_only=True)
class TaggedText:
    """A text with a tag for every word."""

    text: str
    """Of words that were handed in one by one: these, with a blank between."""
    words: tuple[TaggedWord, ...]
    entities: tuple[FoundEntity, ...]
    is_of_entities: bool
    """Whether the tags say where entities are; else parts of speech and the like."""


@dataclass(frozen=True, kw_only=True)
class AnsweredQuestion:
    """A piece of a passage."""

    question: Question
    answer: str
    """An exact piece of the passage; empty for no answer."""
    start: int | None
    """Its first character in the passage; None for no answer."""
    probability: float
    """Of the answer, or of there being none, among the candidates."""
    no_answer_probability: float | None
    """None where every question has an answer."""
    null_threshold: float
    """The null odds (`found.null_odds`) above which no answer is given, however probable one is."""
    found: FoundAnswer
    """The best answer that is not empty, the other candidates, and their scores."""
    num_unread: int
    """Tokens of the question that did not fit."""

    @classmethod
    def of(
        cls, question: Question, found: FoundAnswer, num_unread: int, null_threshold: float
    ) -> AnsweredQuestion:
        """The answer with the probabilities of its candidates."""
        nulls = [each.probability for each in found.candidates if not each.text]
        given = bool(found.text)
        return cls(
            question=question,
            answer=found.text,
            start=found.best.start if given else None,
            probability=found.best.probability if given else sum(nulls),
            no_answer_probability=nulls[0] if nulls else None,
            null_threshold=null_threshold,
            found=found,
            num_unread=num_unread,
        )


@dataclass(frozen=True, kw_only=True)
class ChosenText:
    """One of several choices."""

    text: str
    choices: tuple[str, ...]
    choice: int
    """The number of the likeliest, from 0."""
    probabilities: tuple[float, ...]
    """Of each."""
    num_unread: int
    """Tokens that did not fit, of text and choices."""

    @classmethod
    def of(cls, example: ChoiceExample, answer: ChoiceAnswer, num_unread: int) -> ChosenText:
        """The answer beside its question."""
        return cls(
            text=example.text,
            choices=example.choices,
            choice=answer.choice,
            probabilities=answer.probabilities,
            num_unread=num_unread,
        )


@dataclass(frozen=True, kw_only=True)
class OwnAnswer:
    """What a task class of a person's own says of an example."""

    value: object
    """As its `decode` gave it."""


TaskAnswer = ClassifiedText | TaggedText | AnsweredQuestion | ChosenText | OwnAnswer


def num_unread(answer: TaskAnswer | None) -> int:
    """Tokens that were not read; none in tagging, where a long text is read in windows.

    Nor of a class of one's own, which may cut as it likes: there sequences are counted.
    """
    if answer is None or isinstance(answer, TaggedText | OwnAnswer):
        return 0
    return answer.num_unread


def tagged(
    asked: TextToTag, tags: Sequence[str], probabilities: FloatArray, scheme: TagScheme
) -> TaggedText:
    """The words of a text with (W,) predicted tags and their probabilities, nan for none.

    Tags are handed out well-formed: the entities, and so every score, stay what they were.
    """
    tags = scheme.well_formed(tags)
    sure = [None if math.isnan(each) else each for each in probabilities.tolist()]
    words = tuple(
        TaggedWord(text=asked.text[start:end], start=start, end=end, tag=tag, probability=share)
        for (start, end), tag, share in zip(asked.spans, tags, sure, strict=True)
    )
    found = entities(tags) if scheme.is_of_entities else []
    return TaggedText(
        text=asked.text,
        words=words,
        entities=tuple(_entity(asked.text, words[start:end], kind) for start, end, kind in found),
        is_of_entities=scheme.is_of_entities,
    )


def _entity(text: str, words: Sequence[TaggedWord], kind: str) -> FoundEntity:
    start, end = words[0].start, words[-1].end
    return FoundEntity(
        kind=kind,
        text=text[start:end],
        start=start,
        end=end,
        probability=math.prod(1.0 if each.probability is None else each.probability
                              for each in words),
    )  # fmt: skip
