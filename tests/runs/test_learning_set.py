"""Examples as a model reads them, or the reason why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bertsmith.checkpoints.store import Loaded
from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.learning_set import fingerprint, read_examples
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.task import Classification
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer

TASK = Classification(scheme=LabelScheme(("no", "yes")), metrics=("accuracy", "f1"))


def loaded(type_vocab_size: int = 2) -> Loaded:
    model = tiny_model(type_vocab_size=type_vocab_size)
    return Loaded(
        model=model, config=model.config, tokenizer=tiny_tokenizer(), directory="here", notes=(),
        left_aside=(),
    )  # type: ignore[arg-type]  # fmt: skip


def example(*texts: str, label: str | None = "yes", number: int = 2) -> TextExample:
    labels = None if label is None else (label,)
    return TextExample(texts=texts, labels=labels, place=f"dev.tsv:{number}")


def test_words_that_the_model_does_not_know_are_a_note_of_the_examples() -> None:
    known = read_examples(TASK, [example("the dog")], loaded(), "Dev")
    assert known.notes == ()
    lost = read_examples(TASK, [example("the dog"), example("\u0645\u0631\u062d")], loaded(), "Dev")
    (note,) = lost.notes
    assert note.startswith("1 of the 3 tokens of the examples are [UNK], words that the vocabulary")


@pytest.mark.parametrize(
    ("examples", "type_vocab_size", "told"),
    [
        ([], 2, "there are no Dev examples"),
        ([example("the dog"), example("a cat", label="maybe")], 2, "dev.tsv:2: label 'maybe'"),
        ([example("the dog"), example("a cat", label=None)], 2, "not every one of the 2 Dev exam"),
        ([example("the dog " * 12)], 2, "has 26 tokens, and here reads at most 24: lower --max-"),
        ([example("the dog", "a cat")], 1, "pairs of texts, and here has no second segment"),
    ],
)
def test_what_the_model_cannot_read_is_refused(
    examples: list[TextExample], type_vocab_size: int, told: str
) -> None:
    with pytest.raises(ValueError, match=told):
        read_examples(TASK, examples, loaded(type_vocab_size), "Dev")


def test_scores_and_intervals_are_the_tasks() -> None:
    examples = [
        example("the cat" if number % 3 else "my dog", label="yes" if number % 2 else "no")
        for number in range(20)
    ]
    source = loaded()
    read = read_examples(TASK, examples, source, "Dev")
    model = TaskModel(source.model.bert, TaskHead(source.config, TASK.head))
    initialise(model.head, std=0.3, seed=1)
    answers = read.answers(model)
    scores, intervals = read.scores(answers), read.intervals(answers)
    assert list(scores) == list(intervals) == ["accuracy", "f1"]
    assert scores == TASK.score(examples, answers)
    assert all(0 <= each.low <= scores[name] <= each.high <= 1 for name, each in intervals.items())
    assert intervals["accuracy"].low < intervals["accuracy"].high


def test_a_fingerprint_knows_what_is_read_and_what_is_right() -> None:
    items = [
        Item(
            token_ids=np.arange(length, dtype=np.int32),
            segment_ids=np.zeros(length, np.int32),
            num_unread=0,
        )
        for length in (3, 5)
    ]
    targets = [np.array([0]), np.array([1])]
    first = LabelledItems(items=items, groups=np.arange(2), rows=None, targets=targets)
    others = [
        replace(first, items=items[::-1]),
        replace(first, targets=targets[::-1]),
        replace(first, groups=np.zeros(2, np.int64)),
        replace(first, rows=[np.arange(1), np.arange(1)]),
    ]
    found = {fingerprint(each) for each in (first, *others)}
    assert len(found) == 5
    assert fingerprint(replace(first)) == fingerprint(first)
    assert fingerprint(first, others[0]) != fingerprint(others[0], first)


class Lenient(Classification):
    """A task class of one's own on a built-in one, with a metric of its own."""

    def score(
        self, examples: Sequence[TextExample], answers: Sequence[TextAnswer]
    ) -> dict[str, float]:
        pairs = zip(examples, answers, strict=True)
        return {"lenient": sum(1.0 for one, other in pairs if other.scores[1] > 0.1) / len(answers)}


def test_intervals_of_an_own_class_are_of_its_own_metrics() -> None:
    task = Lenient(scheme=LabelScheme(("no", "yes")))
    examples = [example("the cat", number=number) for number in range(30)]
    read = replace(read_examples(TASK, examples, loaded(), "Dev"), task=task)
    answers = [
        TextAnswer(labels=("no",), scores=(1.0 - share, share)) for share in np.linspace(0, 0.2, 30)
    ]
    scores, intervals = read.scores(answers), read.intervals(answers)
    assert list(scores) == list(intervals) == ["lenient"]
    assert intervals["lenient"].low < scores["lenient"] < intervals["lenient"].high
