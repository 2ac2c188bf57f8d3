"""What is reached without reading: the score of one answer to all, the loss of frequencies."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertsmith.data.items import Item
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question, read_questions
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.guessing import Constant, best_constant, guessing_loss
from bertsmith.tasks.squad_scores import SquadVersion
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
    assert best_constant(task, examples) == (pytest.approx(expected), "")


def test_another_metric_has_its_own_best_constant_answer() -> None:
    examples = texts("0", "0", "1")
    task = classes("f1", "accuracy")
    assert best_constant(task, examples) == (pytest.approx(0.5), "")  # always 1
    assert best_constant(task, examples, "accuracy") == (pytest.approx(2 / 3), "")


def test_of_a_task_of_another_kind_no_constant_answer_is_known() -> None:
    class Mine:
        pass

    assert best_constant(Mine(), []) is None  # type: ignore[arg-type]


def asked(*answers: str | None) -> list[Question]:
    """Of passages of five words, of which the second to the fourth are the same in all."""
    return [
        Question(
            key=str(number),
            question="?",
            passage=f"p{number} one two three q{number}",
            place="x:1",
            answers=() if answer is None else (Answer(text=answer, start=0),),
        )
        for number, answer in enumerate(answers)
    ]


def test_the_same_words_of_every_passage_are_one_answer_to_all_questions() -> None:
    questions = asked(*["one two"] * 60, *["two three"] * 20, *["p"] * 20)
    second_and_third = "words 2 to 3 of every passage"
    assert best_constant(SpanAnswering(), questions) == (
        pytest.approx(60.0 + 20.0 * 2 / 4), second_and_third
    )  # fmt: skip
    assert best_constant(SpanAnswering(), questions, "exact") == (60.0, second_and_third)
    few = asked(*["one two"] * 5)  # one of many places fits a few questions by chance
    assert best_constant(SpanAnswering(), few) == (0.0, "")


def test_where_most_questions_have_no_answer_none_is_the_one_answer_to_all() -> None:
    most, fewer = (asked(*["one two"] * (100 - none), *[None] * none) for none in (60, 40))
    assert best_constant(SpanAnswering(version="2.0"), most) == (60.0, "")
    assert best_constant(SpanAnswering(version="2.0"), fewer) == (
        60.0, "words 2 to 3 of every passage"
    )  # fmt: skip


@pytest.mark.data
@pytest.mark.parametrize(
    ("version", "metric", "expected"),
    [
        ("1.1", "f1", Constant(9.66, "words 9 to 24 of every passage")),
        ("1.1", "exact", Constant(1.68, "words 1 to 2 from the end of every passage")),
        ("2.0", "f1", Constant(47.99, "")),
        ("2.0", "exact", Constant(47.99, "")),
    ],
)
def test_what_one_answer_has_on_squad(
    version: SquadVersion, metric: str, expected: Constant
) -> None:
    path = Path(os.environ["BERTSMITH_DATA"]) / "squad" / f"dev-v{version}.json.gz"
    found = best_constant(SpanAnswering(version=version), read_questions(path).questions, metric)
    assert found == (pytest.approx(expected.score, abs=0.005), expected.about)


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
