"""What can be averaged with what, and whose threshold holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bertsmith.checkpoints.store import Loaded
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.runs.ensemble import Member, as_one, require_fit
from bertsmith.runs.learning_set import read_examples
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.task import Classification, SpanAnswering
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer

TEXTS = [TextExample(texts=("the dog likes",), labels=("1",), place="x:1")]
ASKED = [
    Question(
        key="a", question="is he ?", passage="the dog", answers=(Answer(text="dog", start=4),),
        place="x:1",
    )
]  # fmt: skip


def member(name: str, task: Any, examples: list[Any], scores: list[Any]) -> Member:
    model = tiny_model()
    loaded = Loaded(
        model=model, config=model.config, tokenizer=tiny_tokenizer(), directory="here", notes=(),
    )  # type: ignore[arg-type]  # fmt: skip
    read = read_examples(task, examples, loaded, "Dev")
    return Member(name=name, examples=read, item_scores=[np.array(each) for each in scores])


def texts(name: str, *labels: str, problem: Any = "single_label", max_tokens: int = 16) -> Member:
    task = Classification(scheme=LabelScheme(labels, problem), max_tokens=max_tokens)
    return member(name, task, TEXTS, [[0.0] * len(labels)])


def spans(name: str, threshold: float, null: float, **choosing: Any) -> Member:
    """`null`: how far the score of no answer is above that of the one answer."""
    values = {"with_null": True, "null_threshold": threshold, **choosing}
    config = SquadConfig(max_tokens=16, doc_stride=4, max_question_tokens=4, **values)
    scores = np.full((8, 2), -9.0)  # [CLS] is he ? [SEP] the dog [SEP]
    scores[0], scores[6] = (null / 2, null / 2), (0.0, 0.0)
    return member(name, SpanAnswering(config=config, version="2.0"), ASKED, [scores])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (
            texts("b", "1", "2"),
            "b is no part of this ensemble: its labels are 1, 2, and ",
        ),
        (texts("b", "1", "0"), "its labels are 1, 0, and those of a 0, 1"),
        (texts("b", "0", "1", problem="multi_label"), "it answers multi label classification, and"),
        (texts("b", "0", "1", max_tokens=4), "it reads the examples as other tokens than a does"),
        (spans("b", 0.0, 1.0), "it answers question answering, and a single label"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(other: Member, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        require_fit(other, texts("a", "0", "1"))


@pytest.mark.parametrize(
    ("choosing", "told"),
    [
        ({"with_null": False}, "with_null False, max_answer_tokens 30, num_best 20"),
        ({"max_answer_tokens": 5}, "with_null True, max_answer_tokens 5, num_best 20"),
        ({"num_best": 1}, "with_null True, max_answer_tokens 30, num_best 1"),
    ],
)
def test_models_that_choose_answers_otherwise_are_no_ensemble_in_either_order(
    choosing: dict[str, Any], told: str
) -> None:
    first, other = spans("a", 1.0, 1.0), spans("b", 1.0, 1.0, **choosing)
    usual = "with_null True, max_answer_tokens 30, num_best 20"
    for member, another, its, others in ((other, first, told, usual), (first, other, usual, told)):
        with pytest.raises(ValueError, match=f"by {its}, and {another.name} by {others}; score"):
            require_fit(member, another)
    require_fit(spans("b", 4.0, 1.0), first)


def test_equal_labels_and_tokens_fit_and_answer_as_one() -> None:
    task = Classification(scheme=LabelScheme(("0", "1")), max_tokens=16)
    first, second = (
        member(name, task, TEXTS, [np.log([share, 1.0 - share])])
        for name, share in (("a", 0.6), ("b", 0.1))
    )
    require_fit(second, first)
    joint = as_one([first, second])
    (answer,) = joint.examples.decoded(joint.item_scores)
    assert answer.scores == pytest.approx((0.35, 0.65))
    alone = [each.examples.decoded(each.item_scores)[0].labels for each in (first, second)]
    assert (alone, answer.labels) == ([("0",), ("1",)], ("1",))
    assert joint.examples.scores([answer])["accuracy"] == 1.0


@pytest.mark.parametrize(("thresholds", "text"), [((1.0, 4.0), "dog"), ((1.0, 2.0), "")])
def test_no_answer_is_given_above_the_mean_of_the_thresholds(
    thresholds: tuple[float, float], text: str
) -> None:
    """The odds of no answer are 1 and 3, and 2 in the mean."""
    first, second = thresholds
    joint = as_one([spans("a", first, 1.0), spans("b", second, 3.0)])
    (answer,) = joint.examples.decoded(joint.item_scores)
    assert math.isclose(answer.null_odds, 2.0)
    assert answer.text == text
