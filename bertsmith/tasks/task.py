"""What every task answers, in the order an example lives: encode, head, decode, score.

A task is a frozen value: with it a fine-tuned model is whole, since it says how an example becomes
sequences and how scores become answers. Training and prediction share it. Where examples come from
is not its question: see `glue`, and the readers of files.

Source: Devlin et al. 2018, section 4.

Legend: R rows scored in an item, C labels.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import ProblemType, TaskHeadConfig
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Question
from bertsmith.tasks import choose, classify, squad, squad_answers, tag, tag_scheme
from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample
from bertsmith.tasks.classify import LabelScheme, Problem, TextAnswer, TextExample
from bertsmith.tasks.metrics import Scorer
from bertsmith.tasks.squad import EncodedQuestions, SquadConfig
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.squad_scores import SquadVersion, question_scores
from bertsmith.tasks.tag import EncodedWords, TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.text.tokenizer import Tokenizer

FloatArray = npt.NDArray[np.floating]
ExampleT = TypeVar("ExampleT", contravariant=True)
EncodedT = TypeVar("EncodedT", bound="Encoded")
AnswerT = TypeVar("AnswerT")

_PROBLEM_TYPES: dict[Problem, ProblemType] = {
    "single_label": "single_label_classification",
    "multi_label": "multi_label_classification",
    "regression": "regression",
}


class Encoded(Protocol):
    """Examples as a model reads them."""

    @property
    def labelled(self) -> LabelledItems:
        """The sequences, and what is right of each."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What of the examples is not read, or never scored, a sentence each."""


class Task(Protocol[ExampleT, EncodedT, AnswerT]):
    """A task of any kind; a class of your own with these four is one."""

    @property
    def head(self) -> TaskHeadConfig:
        """What is added to the encoder."""

    def encode(self, examples: Sequence[ExampleT], tokenizer: Tokenizer) -> EncodedT:
        """Examples -> sequences; raises ValueError, with the place, for what cannot be read."""

    def decode(
        self, examples: Sequence[ExampleT], encoded: EncodedT, scores: Sequence[FloatArray]
    ) -> list[AnswerT]:
        """An answer to every example, of each item's (C,) or (R, C) scores."""

    def score(self, examples: Sequence[ExampleT], answers: Sequence[AnswerT]) -> dict[str, float]:
        """The metrics by name; the first one, higher being better, chooses models."""


@dataclass(frozen=True, kw_only=True)
class EncodedTexts:
    """Texts or choices as a model reads them."""

    labelled: LabelledItems
    notes: tuple[str, ...] = ()
    """None: what is cut is known of every sequence."""


@dataclass(frozen=True, kw_only=True)
class Classification:
    """One label of several, any number of them, or a number, of a text or a pair."""

    scheme: LabelScheme
    max_tokens: int = 128
    """The longest sequence, special tokens included (GLUE's, in the paper's code: 128)."""
    metrics: tuple[str, ...] = ()
    """What is scored; by default all metrics of the problem."""

    def __post_init__(self) -> None:
        """Refuses metrics that the problem has not."""
        known = classify.metric_names(self.scheme.problem)
        if unknown := [name for name in self.metrics if name not in known]:
            raise ValueError(
                f"{self.scheme.problem} is scored by {', '.join(known)}, not by {unknown[0]}"
            )
        if "f1" in self.metrics and self.scheme.problem == "single_label":
            _require_two(self.scheme.names)

    @property
    def head(self) -> TaskHeadConfig:
        """A score for each label, of the pooled vector."""
        return TaskHeadConfig(
            kind="sequence_classification",
            labels=self.scheme.names,
            problem_type=_PROBLEM_TYPES[self.scheme.problem],
        )

    def encode(self, examples: Sequence[TextExample], tokenizer: Tokenizer) -> EncodedTexts:
        """As `classify.encode`."""
        labelled = classify.encode(examples, tokenizer, self.scheme, self.max_tokens)
        return EncodedTexts(labelled=labelled)

    def decode(
        self, examples: Sequence[TextExample], encoded: EncodedTexts, scores: Sequence[FloatArray]
    ) -> list[TextAnswer]:
        """The likeliest labels of each text."""
        return [self.scheme.answer(of_text) for of_text in scores]

    def scorer(self, examples: Sequence[TextExample], answers: Sequence[TextAnswer]) -> Scorer:
        """As `classify.scorer`."""
        return classify.scorer(examples, answers, self.scheme, self.metrics)

    def score(
        self, examples: Sequence[TextExample], answers: Sequence[TextAnswer]
    ) -> dict[str, float]:
        """The scorer's metrics of all examples."""
        return self.scorer(examples, answers)(np.arange(len(examples)))


def _require_two(labels: Sequence[str]) -> None:
    """F1 is of the second label of two."""
    if len(labels) != 2:
        raise ValueError(
            f"f1 is that of the second label of two, and there are {len(labels)}: "
            f"{', '.join(labels):.100}; macro_f1 is the mean over all labels"
        )


@dataclass(frozen=True, kw_only=True)
class MultipleChoice:
    """One of the choices of a question."""

    max_tokens: int = 128
    """The longest sequence, special tokens included."""

    @property
    def head(self) -> TaskHeadConfig:
        """One score, of the pooled vector of each choice."""
        return TaskHeadConfig(kind="multiple_choice", labels=("score",))

    def encode(self, examples: Sequence[ChoiceExample], tokenizer: Tokenizer) -> EncodedTexts:
        """As `choose.encode`."""
        return EncodedTexts(labelled=choose.encode(examples, tokenizer, self.max_tokens))

    def decode(
        self, examples: Sequence[ChoiceExample], encoded: EncodedTexts, scores: Sequence[FloatArray]
    ) -> list[ChoiceAnswer]:
        """As `choose.decode`."""
        return choose.decode(examples, scores)

    def scorer(self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]) -> Scorer:
        """As `choose.scorer`."""
        return choose.scorer(examples, answers)

    def score(
        self, examples: Sequence[ChoiceExample], answers: Sequence[ChoiceAnswer]
    ) -> dict[str, float]:
        """The scorer's metrics of all examples."""
        return self.scorer(examples, answers)(np.arange(len(examples)))


@dataclass(frozen=True, kw_only=True)
class Tagging:
    """A tag for every word."""

    scheme: TagScheme
    config: TagConfig = field(default_factory=TagConfig)

    @property
    def head(self) -> TaskHeadConfig:
        """A score for each tag, of the hidden state of a word's first token."""
        return TaskHeadConfig(kind="token_classification", labels=self.scheme.labels)

    def encode(self, examples: Sequence[TaggedSentence], tokenizer: Tokenizer) -> EncodedWords:
        """As `tag.encode`."""
        return tag.encode(examples, tokenizer, self.scheme, self.config)

    def decode(
        self,
        examples: Sequence[TaggedSentence],
        encoded: EncodedWords,
        scores: Sequence[FloatArray],
    ) -> list[list[str]]:
        """As `tag.decode`."""
        return tag.decode(examples, encoded, scores, self.scheme)

    def scorer(
        self, examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]]
    ) -> Scorer:
        """As `tag_scheme.scorer`."""
        return tag_scheme.scorer(examples, answers, self.scheme)

    def score(
        self, examples: Sequence[TaggedSentence], answers: Sequence[Sequence[str]]
    ) -> dict[str, float]:
        """The scorer's metrics of all sentences."""
        return self.scorer(examples, answers)(np.arange(len(examples)))


@dataclass(frozen=True, kw_only=True)
class SpanAnswering:
    """The piece of a passage that answers a question."""

    config: SquadConfig = field(default_factory=SquadConfig)
    version: SquadVersion = "1.1"
    """Whose evaluator scores it."""

    @property
    def head(self) -> TaskHeadConfig:
        """A start and an end score, of every token's hidden state; no dropout before it."""
        return TaskHeadConfig(kind="question_answering", labels=("start", "end"), dropout=0.0)

    def encode(self, examples: Sequence[Question], tokenizer: Tokenizer) -> EncodedQuestions:
        """As `squad.encode`."""
        return squad.encode(examples, tokenizer, self.config)

    def decode(
        self,
        examples: Sequence[Question],
        encoded: EncodedQuestions,
        scores: Sequence[FloatArray],
    ) -> list[FoundAnswer]:
        """As `squad_answers.decode`."""
        return squad_answers.decode(examples, encoded, scores, self.config)

    def scorer(self, examples: Sequence[Question], answers: Sequence[FoundAnswer]) -> Scorer:
        """Gives `f1` and `exact`, in percent; a question that stands there twice counts twice."""
        gold = {str(number): each.gold for number, each in enumerate(examples)}
        texts = {str(number): each.text for number, each in enumerate(answers)}
        scores = question_scores(texts, gold, self.version)
        exact, f1 = (np.array([each[key] for key in gold]) for each in scores)
        return lambda numbers: {
            "f1": 100.0 * float(f1[numbers].mean()),
            "exact": 100.0 * float(exact[numbers].mean()),
        }

    def score(
        self, examples: Sequence[Question], answers: Sequence[FoundAnswer]
    ) -> dict[str, float]:
        """The scorer's metrics of all questions."""
        return self.scorer(examples, answers)(np.arange(len(examples)))


AnyTask = Classification | MultipleChoice | Tagging | SpanAnswering
"""The kinds that a directory can name."""


def to_json(task: AnyTask) -> dict[str, object]:
    """A task as JSON values."""
    return {"kind": type(task).__name__, **dataclasses.asdict(task)}


def from_json(value: Mapping[str, Any]) -> AnyTask:
    """The task that `to_json` wrote. Raises ValueError for a kind that this version has not."""
    fields = {name: each for name, each in value.items() if name != "kind"}
    match value.get("kind"):
        case "Classification":
            scheme = LabelScheme(tuple(fields["scheme"]["names"]), fields["scheme"]["problem"])
            metrics = tuple(fields["metrics"])
            return Classification(**{**fields, "scheme": scheme, "metrics": metrics})
        case "MultipleChoice":
            return MultipleChoice(**fields)
        case "Tagging":
            stored = fields["scheme"]
            scheme_of_tags = TagScheme(**{**stored, "labels": tuple(stored["labels"])})
            return Tagging(scheme=scheme_of_tags, config=TagConfig(**fields["config"]))
        case "SpanAnswering":
            return SpanAnswering(**{**fields, "config": SquadConfig(**fields["config"])})
        case kind:
            raise ValueError(f"no task of the kind {kind!r} is known; is it of a newer version?")
