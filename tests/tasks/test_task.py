"""Tasks of every kind survive their file, and scores that are gold are answered with gold."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.tag import TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import (
    AnyTask,
    Classification,
    MultipleChoice,
    SpanAnswering,
    Tagging,
    from_json,
    to_json,
)
from bertsmith.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"])
CASES: dict[str, tuple[AnyTask, list[Any]]] = {
    "classification": (
        Classification(scheme=LabelScheme(("x", "y")), max_tokens=8, metrics=("accuracy",)),
        [TextExample(texts=("a",), labels=("y",), place="1"),
         TextExample(texts=("b", "c"), labels=("x",), place="2")],
    ),
    "several labels": (
        Classification(scheme=LabelScheme(("x", "y", "z"), "multi_label")),
        [TextExample(texts=("a",), labels=("y", "z"), place="1"),
         TextExample(texts=("b",), labels=("x",), place="2")],
    ),
    "choices": (
        MultipleChoice(max_tokens=9),
        [ChoiceExample(text="a", choices=("b", "c"), label=1, place="1"),
         ChoiceExample(text="b", choices=("b", "c", "d"), label=0, place="2")],
    ),
    "tags": (
        Tagging(
            scheme=TagScheme(("O", "B-X", "I-X"), is_of_entities=True),
            config=TagConfig(context="sentence", max_tokens=4),
        ),
        [TaggedSentence(place="1", words=("a", "b", "c"), tags=("B-X", "I-X", "O"), document=0)],
    ),
    "spans": (
        SpanAnswering(
            config=SquadConfig(max_tokens=12, doc_stride=2, max_question_tokens=4, with_null=True),
            version="2.0",
        ),
        [Question(key="1", question="a b", passage="c d a b", place="1",
                  answers=(Answer(text="d a", start=2),)),
         Question(key="2", question="a", passage="c d", place="2", answers=())],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_task_survives_its_file(name: str) -> None:
    task, _ = CASES[name]
    assert from_json(json.loads(json.dumps(to_json(task)))) == task


def test_a_kind_of_a_newer_version_is_named() -> None:
    with pytest.raises(ValueError, match="'Translation'"):
        from_json({"kind": "Translation"})


@pytest.mark.parametrize("name", CASES)
def test_gold_scores_are_answered_with_gold(name: str) -> None:
    task, examples = CASES[name]
    encoded = task.encode(examples, TOKENIZER)
    labelled, num_labels = encoded.labelled, task.head.num_labels
    scores: list[np.ndarray] = []
    for number, target in enumerate(labelled.targets):
        if task.head.kind == "question_answering":
            of_item = np.zeros((len(labelled.items[number].token_ids), 2))
            of_item[target[0], 0] = of_item[target[1], 1] = 9.0
        elif task.head.kind == "multiple_choice" or len(target) == num_labels:
            of_item = 9.0 * target - 4.0
        else:
            of_item = np.eye(num_labels)[target]
            of_item = of_item if labelled.by_row else of_item[0]
        scores.append(of_item)
    answers = task.decode(examples, encoded, scores)  # type: ignore[arg-type]
    assert len(answers) == len(examples)
    first, *_ = task.score(examples, answers).values()  # type: ignore[arg-type]
    assert first == (100.0 if name == "spans" else 1.0)


DRAWN: dict[str, tuple[AnyTask, list[Any]]] = {
    **CASES,
    "one number": (
        Classification(scheme=LabelScheme(("score",), "regression")),
        [TextExample(texts=("a",), labels=("1.5",), place="1"),
         TextExample(texts=("b",), labels=("3",), place="2"),
         TextExample(texts=("c",), labels=("-2",), place="3")],
    ),
    "one label of three": (
        Classification(scheme=LabelScheme(("x", "y", "z"))),
        [TextExample(texts=("a",), labels=(label,), place=label) for label in "xyzzx"],
    ),
    "two kinds": (
        Tagging(scheme=TagScheme(("O", "B-X", "I-X", "B-Y", "I-Y"), is_of_entities=True)),
        [TaggedSentence(place="1", words=("a", "b"), tags=("B-X", "I-X"), document=0),
         TaggedSentence(place="2", words=("c",), tags=("B-Y",), document=1),
         TaggedSentence(place="3", words=("c", "d"), tags=("O", "O"), document=1)],
    ),
    "parts of speech": (
        Tagging(scheme=TagScheme(("DT", "NN"), is_of_entities=False)),
        [TaggedSentence(place="1", words=("a", "b"), tags=("DT", "NN"), document=0),
         TaggedSentence(place="2", words=("c",), tags=("NN",), document=1)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DRAWN)
def test_scores_of_drawn_examples_are_those_of_the_examples_by_themselves(kind: str) -> None:
    task, few = DRAWN[kind]
    examples = few * 40
    random = np.random.default_rng(5)
    encoded = task.encode(examples, TOKENIZER)
    scores = []
    for number, item in enumerate(encoded.labelled.items):
        rows = encoded.labelled.rows
        size = len(item.token_ids if rows is None else rows[number])
        shape = (size, task.head.num_labels) if task.head.reads_tokens else task.head.num_labels
        scores.append(random.normal(size=shape))
    answers = task.decode(examples, encoded, scores)
    scorer = task.scorer(examples, answers)
    differing = set()
    for _ in range(20):
        numbers = random.integers(len(examples), size=len(examples))
        expected = task.score([examples[n] for n in numbers], [answers[n] for n in numbers])
        found = scorer(numbers)
        assert list(found) == list(expected)
        assert found == pytest.approx(expected, abs=1e-12)
        differing.add(next(iter(found.values())))
    assert len(differing) > 1
