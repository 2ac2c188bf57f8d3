"""The scores of a trial look to a class like those of its model, and say every label somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertsmith.checkpoints.store import Loaded
from bertsmith.model.heads import TaskHead
from bertsmith.model.task import TaskHeadConfig
from bertsmith.model.task_model import TaskModel
from bertsmith.reading.conll import TaggedSentence
from bertsmith.runs.learning_set import ReadExamples, read_examples
from bertsmith.runs.trial import try_out
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging
from bertsmith.text.tokenizer import Tokenizer
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer
from tests.tasks.test_squad_evaluation import question


@dataclass(frozen=True)
class Own:
    """A class of one's own that does as a task of the package does, and keeps what it was given."""

    task: AnyTask
    given: list[Sequence[np.ndarray]] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)

    @property
    def head(self) -> TaskHeadConfig:
        return self.task.head

    def encode(self, examples: Sequence[Any], tokenizer: Tokenizer) -> Any:
        return self.task.encode(examples, tokenizer)

    def decode(self, examples: Sequence[Any], encoded: Any, scores: Sequence[np.ndarray]) -> Any:
        self.given.append(scores)
        self.answers[:] = self.task.decode(examples, encoded, scores)
        return self.answers

    def score(self, examples: Sequence[Any], answers: Sequence[Any]) -> dict[str, float]:
        return self.task.score(examples, answers)


def sentence(*tags: str) -> TaggedSentence:
    words = ("my", "dog", "hairy")[: len(tags)]
    return TaggedSentence(place="x:1", words=words, tags=tags, document=0)


SENTENCES = [sentence("O", "B-LOC", "O"), sentence("B-PER", "O")]
TEXTS = [
    TextExample(texts=("the dog " * (1 + n % 3),), labels=("no" if n % 3 else "yes",), place="x")
    for n in range(12)
]
CHOICES = [ChoiceExample(text="he", choices=("a dog", "my cat", "is"), label=2, place="x")] * 4
CASES: dict[str, tuple[AnyTask, list[Any]]] = {
    "labels": (Classification(scheme=LabelScheme(("no", "yes"))), TEXTS),
    "tags": (Tagging(scheme=TagScheme.of(SENTENCES)), SENTENCES),
    "spans": (SpanAnswering(), [question(0, "hairy dog"), question(1, "my cat is")]),
    "choices": (MultipleChoice(), CHOICES),
}


def read(task: Any, examples: list[Any]) -> tuple[ReadExamples[Any, Any, Any], TaskModel]:
    model = tiny_model()
    loaded = Loaded(
        model=model, config=model.config, tokenizer=tiny_tokenizer(), directory=Path("here"),
        notes=(), left_aside=(),
    )  # fmt: skip
    found = read_examples(task, examples, loaded, "Dev")
    return found, TaskModel(model.bert, TaskHead(model.config, task.head))


@pytest.mark.parametrize("name", CASES)
def test_a_trial_gives_scores_as_the_model_would(name: str) -> None:
    task, examples = CASES[name]
    own = Own(task)
    dev, model = read(own, examples)
    try_out(dev)
    (tried,) = own.given
    real = dev.item_scores(model)
    assert [(each.shape, each.dtype) for each in tried] == [(e.shape, e.dtype) for e in real]


@pytest.mark.parametrize("num_labels", [2, 3, 10, 250])
def test_every_label_is_said_in_a_trial(num_labels: int) -> None:
    names = tuple(map(str, range(num_labels)))
    examples = [
        TextExample(texts=("the dog",), labels=(names[n % num_labels],), place="x")
        for n in range(8 * num_labels)
    ]
    own = Own(Classification(scheme=LabelScheme(names), metrics=("accuracy",)))
    try_out(read(own, examples)[0])
    assert {answer.labels[0] for answer in own.answers} == {*names}


def test_a_task_of_the_package_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    task, examples = CASES["labels"]
    dev, _ = read(task, examples)
    asked: list[object] = []
    monkeypatch.setattr(ReadExamples, "decoded", lambda *given: asked.append(given))
    try_out(dev)
    assert not asked
