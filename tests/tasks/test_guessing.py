"""What is reached without reading: the score of one answer to all, the loss of frequencies."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.guessing import constant_score, guessing_loss
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging


def texts(*labels: str) -> list[TextExample]:
    return [TextExample(texts=("a",), labels=tuple(each.split()), place="x:1") for each in labels]


def classes(*metrics: str, names: tuple[str, ...] = ("0", "1")) -> Classification:
    return Classification(scheme=LabelScheme(names), metrics=metrics)


TAGGED = [TaggedSentence(place="x:1", words=("a", "b"), tags=tags, document=0)
          for tags in (("NN", "NN"), ("NN", "VB"))]  # fmt: skip
NAMED = [TaggedSentence(place="x:1", words=("a", "b", "c"), tags=("O", "B-X", "O"), document=0)]
CHOICES = [ChoiceExample(text="a", choices=("b", "c", "d")[:count], label=label, place="x:1")
           for count, label in ((2, 1), (3, 1), (3, 2))]  # fmt: skip
ASKED = [Question(key=str(n), question="a", passage="b c", place="x:1", answers=answers)
         for n, answers in enumerate([(), (Answer(text="b", start=0),)])]  # fmt: skip
MANY = Classification(scheme=LabelScheme(("a", "b"), "multi_label"), metrics=("exact",))


@pytest.mark.parametrize(
    ("task", "examples", "expected"),
    [
        (classes("accuracy"), texts("1", "1", "0"), 2 / 3),
        (classes("matthews"), texts("1", "1", "0"), 0.0),
        (classes("f1", "accuracy"), texts("1", "1", "0"), 0.8),
        (classes("accuracy", names=("a", "b", "c")), texts("a", "b", "c", "c"), 0.5),
        (Classification(scheme=LabelScheme(("score",), "regression")), texts("1", "2.5"), 0.0),
        (MANY, texts("a b", "", "a b"), 2 / 3),
        (MultipleChoice(), CHOICES, 2 / 3),
        (Tagging(scheme=TagScheme.of(TAGGED)), TAGGED, 0.75),
        (Tagging(scheme=TagScheme.of(NAMED)), NAMED, 0.5),  # B-X to every word: one of three is one
        (SpanAnswering(version="2.0"), ASKED, 50.0),
        (SpanAnswering(), ASKED[1:], 0.0),
    ],
)  # fmt: skip
def test_one_answer_to_all_has_its_score(task: Any, examples: list[Any], expected: float) -> None:
    assert constant_score(task, examples) == pytest.approx(expected)


def test_another_metric_has_its_own_best_constant_answer() -> None:
    examples = texts("0", "0", "1")
    assert constant_score(classes("f1", "accuracy"), examples) == pytest.approx(0.5)  # always 1
    assert constant_score(classes("f1", "accuracy"), examples, "accuracy") == pytest.approx(2 / 3)


def test_of_a_task_of_another_kind_no_constant_answer_is_known() -> None:
    class Mine:
        pass

    assert constant_score(Mine(), []) is None  # type: ignore[arg-type]


def labelled(targets: list[list[float]], groups: list[int] | None = None) -> LabelledItems:
    items = [
        Item(token_ids=np.zeros(4, np.int32), segment_ids=np.zeros(4, np.int32), num_unread=0)
        for _ in targets
    ]
    return LabelledItems(
        items=items,
        groups=np.array(groups or range(len(targets))),
        rows=None,
        targets=[np.array(each) for each in targets],
    )


@pytest.mark.parametrize(
    ("head", "examples", "expected"),
    [
        (TaskHeadConfig(kind="sequence_classification", labels=("a", "b", "c")),
         labelled([[0], [0], [1], [1]]), math.log(2)),
        (TaskHeadConfig(kind="sequence_classification", labels=("x",), problem_type="regression"),
         labelled([[1.0], [3.0]]), 1.0),
        (TaskHeadConfig(kind="sequence_classification", labels=("a", "b"),
                        problem_type="multi_label_classification"),
         labelled([[1, 0], [0, 0]]), math.log(2) / 2),
        (TaskHeadConfig(kind="token_classification", labels=("a", "b")),
         labelled([[0, 1, 0], [1]]), math.log(2)),
        (TaskHeadConfig(kind="multiple_choice", labels=("score",)),
         labelled([[1]] * 6, [0, 0, 1, 1, 1, 1]), (math.log(2) + math.log(4)) / 2),
        (TaskHeadConfig(kind="question_answering", labels=("start", "end")),
         labelled([[1, 2], [0, 0]]), math.log(4)),
    ],
)  # fmt: skip
def test_frequencies_alone_have_their_loss(
    head: TaskHeadConfig, examples: LabelledItems, expected: float
) -> None:
    assert guessing_loss(head, examples) == pytest.approx(expected)
