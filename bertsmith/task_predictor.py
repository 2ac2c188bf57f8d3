"""A fine-tuned model and questions of its task -> answers with probabilities.

Questions are read and answers made by the task itself, as in training. Any number of questions may
be asked at once; whoever has more than the memory holds asks several times. It knows no files.

Legend: N questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from bertsmith.checkpoints.places import TASK
from bertsmith.checkpoints.store import Loaded
from bertsmith.model.task import TaskHeadConfig
from bertsmith.packing import Watch
from bertsmith.reading.squad_json import Question
from bertsmith.tasks import tag
from bertsmith.tasks.abilities import Abilities
from bertsmith.tasks.answered import (
    AnsweredQuestion,
    ChosenText,
    ClassifiedText,
    TaggedText,
    TaskAnswer,
    tagged,
)
from bertsmith.tasks.asked import (
    Asked,
    TextToTag,
    choices_of,
    questions_of,
    texts_to_classify,
    texts_to_tag,
    unreadable,
)
from bertsmith.tasks.assumed import assumed_task, fitted, require_same_head
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.scores import Scoring
from bertsmith.tasks.stored import Learned, read_learned, read_task
from bertsmith.tasks.task import (
    AnyTask,
    Classification,
    EncodedTexts,
    MultipleChoice,
    SpanAnswering,
    Tagging,
)

TaskT = TypeVar("TaskT", bound=AnyTask)
AskedT = TypeVar("AskedT")


class TaskPredictor:
    """What a task head answers."""

    def __init__(
        self, loaded: Loaded, head: TaskHeadConfig, *, scoring: Scoring, abilities: Abilities
    ) -> None:
        """Raises ValueError for a task beside the weights that is another head's."""
        self.tokenizer, self.abilities, self._scoring = loaded.tokenizer, abilities, scoring
        self.notes: tuple[str, ...] = ()
        """What was assumed of a model without a task."""
        limit = loaded.config.max_position_embeddings
        task = read_task(loaded.directory)
        if task is None:
            task, note = assumed_task(head, limit)
            self.notes = (note,)
        require_same_head(task, head, str(loaded.directory / TASK))
        self.task: AnyTask = fitted(task, limit)
        self.learned: Learned = read_learned(loaded.directory)

    def with_null_threshold(self, threshold: float) -> None:
        """Lets questions go without an answer whose null odds are above the threshold."""
        task = self.require(SpanAnswering)
        config = replace(task.config, with_null=True, null_threshold=threshold)
        self.task = replace(task, config=config)

    def classify(
        self, texts: Iterable[str | tuple[str, str]], watch: Watch = lambda share: None
    ) -> list[ClassifiedText]:
        """Labels of texts or of pairs of texts, with the probability of every label; or a number.

        Raises ValueError for a model of another task.
        """
        task = self.require(Classification)
        return self._classified(texts_to_classify(texts), task, watch)

    def tag(
        self, texts: Iterable[str | Sequence[str]], watch: Watch = lambda share: None
    ) -> list[TaggedText]:
        """A tag for every word of every text, however long; entities with their characters.

        A text is parted into words by `words_of_text`; a list is taken for its words. Raises
        ValueError for a model of another task.
        """
        task = self.require(Tagging)
        asked = texts_to_tag(texts, by_character=task.scheme.is_by_character)
        return self._tagged(asked, task, watch)

    def answer(
        self, questions: Iterable[tuple[str, str]], watch: Watch = lambda share: None
    ) -> list[AnsweredQuestion]:
        """Answers to (question, passage): exact pieces of the passages, the likeliest first.

        Raises ValueError for a model of another task.
        """
        task = self.require(SpanAnswering)
        return self._answered(questions_of(questions), task, watch)

    def choose(
        self,
        questions: Iterable[tuple[str, Sequence[str]]],
        watch: Watch = lambda share: None,
    ) -> list[ChosenText]:
        """The likeliest of the choices of each (text, choices), with the probability of each.

        Raises ValueError for a model of another task.
        """
        task = self.require(MultipleChoice)
        return self._chosen(choices_of(questions), task, watch)

    def answers(
        self, asked: Sequence[Asked], watch: Watch = lambda share: None
    ) -> Sequence[TaskAnswer]:
        """An answer to each question, in their order; all must be questions of the task.

        Raises ValueError, with the place, for one of which the model would read nothing.
        """
        match self.task:
            case Classification():
                return self._classified(_all(asked, TextExample), self.task, watch)
            case Tagging():
                return self._tagged(_all(asked, TextToTag), self.task, watch)
            case SpanAnswering():
                return self._answered(_all(asked, Question), self.task, watch)
            case MultipleChoice():
                return self._chosen(_all(asked, ChoiceExample), self.task, watch)

    def unreadable(self, asked: Asked) -> str:
        """As `asked.unreadable`, of the model's tokenizer."""
        return unreadable(asked, self.tokenizer)

    def require(self, kind: type[TaskT]) -> TaskT:
        """The task. Raises ValueError where it is of another kind."""
        if not isinstance(self.task, kind):
            raise ValueError(
                f"{self.abilities.name} learned {type(self.task).__name__}, and was asked for "
                f"{kind.__name__}"
            )
        return self.task

    def _classified(
        self, examples: list[TextExample], task: Classification, watch: Watch
    ) -> list[ClassifiedText]:
        if not examples:
            return []
        if any(len(example.texts) > 1 for example in examples):
            self.abilities.require_pairs()
        encoded = task.encode(examples, self.tokenizer)
        found = task.decode(examples, encoded, self._scoring(encoded.labelled, watch))
        return [
            ClassifiedText.of(example, answer, task.scheme, num_unread)
            for example, answer, num_unread in zip(
                examples, found, _num_unread(encoded), strict=True
            )
        ]

    def _tagged(self, asked: list[TextToTag], task: Tagging, watch: Watch) -> list[TaggedText]:
        if not asked:
            return []
        sentences = [each.sentence for each in asked]
        encoded = task.encode(sentences, self.tokenizer)
        scores = self._scoring(encoded.labelled, watch)
        tags = task.decode(sentences, encoded, scores)
        sure = tag.probabilities(encoded, scores)
        answers: list[TaggedText] = []
        first = 0
        for each, of_text in zip(asked, tags, strict=True):
            there = sure[first : first + len(of_text)]
            answers.append(tagged(each, of_text, there, task.scheme))
            first += len(of_text)
        return answers

    def _answered(
        self, questions: list[Question], task: SpanAnswering, watch: Watch
    ) -> list[AnsweredQuestion]:
        if not questions:
            return []
        self.abilities.require_pairs()
        encoded = task.encode(questions, self.tokenizer)
        found = task.decode(questions, encoded, self._scoring(encoded.labelled, watch))
        return [
            AnsweredQuestion.of(question, answer, num_unread, task.config.null_threshold)
            for question, answer, num_unread in zip(
                questions, found, encoded.num_unread, strict=True
            )
        ]

    def _chosen(
        self, examples: list[ChoiceExample], task: MultipleChoice, watch: Watch
    ) -> list[ChosenText]:
        if not examples:
            return []
        self.abilities.require_pairs()
        encoded = task.encode(examples, self.tokenizer)
        found = task.decode(examples, encoded, self._scoring(encoded.labelled, watch))
        return [
            ChosenText.of(example, answer, num_unread)
            for example, answer, num_unread in zip(
                examples, found, _num_unread(encoded), strict=True
            )
        ]


def _num_unread(encoded: EncodedTexts) -> list[int]:
    """Of each group of items, the tokens that did not fit."""
    counts: Counter[int] = Counter()
    labelled = encoded.labelled
    for item, group in zip(labelled.items, labelled.groups.tolist(), strict=True):
        counts[group] += item.num_unread
    return [counts[group] for group in range(labelled.num_groups)]


def _all(asked: Sequence[Asked], kind: type[AskedT]) -> list[AskedT]:
    found: list[AskedT] = [each for each in asked if isinstance(each, kind)]
    assert len(found) == len(asked), f"not all questions are of the kind {kind.__name__}"
    return found
