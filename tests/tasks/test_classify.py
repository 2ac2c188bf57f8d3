"""Labels, numbers, several labels at once: what goes in comes out, and is scored as it should."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from bertsmith.tasks import classify
from bertsmith.tasks.classify import (
    LabelScheme,
    TextAnswer,
    TextExample,
    absent,
    balance,
    encode,
    scorer,
    told_f1,
)
from bertsmith.tasks.task import Classification
from bertsmith.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"])
TOPICS = LabelScheme(("news", "sport", "tech"), "multi_label")
NUMBERS = LabelScheme(("score",), "regression")


def _example(text: str, *labels: str, pair: str | None = None) -> TextExample:
    texts = (text,) if pair is None else (text, pair)
    return TextExample(texts=texts, labels=labels, place=f"f:{text}")


SINGLE = [_example("a", "10"), _example("b", "9"), _example("c", "9")]


def test_labels_are_those_of_the_examples_in_ascending_order() -> None:
    assert LabelScheme.of(SINGLE).names == ("9", "10")
    assert LabelScheme.of([_example("a", "no"), _example("b", "a")]).names == ("a", "no")
    spelt = ("nan", "3", "yes", "NaN", "inf", "no", "-2")
    for order in itertools.permutations(spelt):  # a set of them has another in every process
        found = sorted(order, key=classify._by_value)
        assert found == ["-2", "3", "NaN", "inf", "nan", "no", "yes"]
    several = [_example("a", "x", "b"), _example("b")]
    assert LabelScheme.of(several, "multi_label").names == ("b", "x")
    rated = [_example("a", "2.5"), _example("b", "3")]
    assert LabelScheme.of(rated, "regression").names == ("score",)


@pytest.mark.parametrize(
    ("examples", "problem", "message"),
    [
        (
            [_example("a", "x"), _example("b", "x")],
            "single_label",
            "2 examples from f:a on, and no label but 'x'",
        ),
        (
            [_example("a", "2.5"), _example("b", "2.50")],
            "regression",
            "2 examples from f:a on, and no number but 2.5: there is nothing to learn",
        ),
        ([_example("a", "2.5")], "regression", "1 example from f:a on, and no number but 2.5"),
        ([TextExample(texts=("a",), labels=None, place="f:1")], "single_label", "f:1: no label"),
    ],
)
def test_labels_that_teach_nothing_are_refused(
    examples: list[TextExample], problem: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        LabelScheme.of(examples, problem)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("scheme", "labels", "message"),
    [
        (TOPICS, ("art",), "f:a: label 'art' is none of the 3 .* news, sport, tech"),
        (LabelScheme(("x", "y")), ("x", "y"), "f:a: 2 labels, expected one"),
        (NUMBERS, ("high",), "f:a: 'high' is no number"),
        (NUMBERS, ("nan",), "f:a: 'nan' is no number"),
    ],
)
def test_labels_that_were_not_learned_are_refused_with_their_place(
    scheme: LabelScheme, labels: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        scheme.target(_example("a", *labels))


def test_texts_and_pairs_are_read_and_what_is_cut_is_counted() -> None:
    examples = [_example("a b c d", "9"), _example("a b c", "10", pair="d d")]
    labelled = encode(examples, TOKENIZER, LabelScheme.of(examples), max_tokens=6)
    read = [[TOKENIZER.vocabulary[id] for id in item.token_ids] for item in labelled.items]
    assert read == [
        ["[CLS]", "a", "b", "c", "d", "[SEP]"],
        ["[CLS]", "a", "b", "[SEP]", "d", "[SEP]"],
    ]
    assert [item.num_unread for item in labelled.items] == [0, 2]
    assert [target.tolist() for target in labelled.targets] == [[0], [1]]
    unknown = [TextExample(texts=("a",), labels=None, place="f:1")]
    assert list(encode(unknown, TOKENIZER, LabelScheme(("x", "y")), 6).targets) == []
    with pytest.raises(ValueError, match="f: : no word in the text ' '"):
        encode([_example(" ", "9")], TOKENIZER, LabelScheme(("9",)), 6)


def test_answers_are_the_likeliest_labels_with_probabilities() -> None:
    one = LabelScheme(("x", "y")).answer(np.array([0.0, np.log(3.0)]))
    assert (one.labels, one.scores) == (("y",), pytest.approx((0.25, 0.75)))
    some = TOPICS.answer(np.array([2.0, -2.0, 0.1]))
    assert some.labels == ("news", "tech")
    assert some.scores[0] == pytest.approx(1 / (1 + np.exp(-2.0)))
    assert NUMBERS.answer(np.array([3.25])) == TextAnswer(labels=("3.25",), scores=(3.25,))


def test_each_problem_is_scored_by_its_own_metrics() -> None:
    found = LabelScheme(("9", "10"))
    answers = [TextAnswer(labels=(label,), scores=()) for label in ("10", "10", "9")]
    scores = Classification(scheme=found).score(SINGLE, answers)
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["f1"] == pytest.approx(2 / 3)
    assert list(Classification(scheme=found, metrics=("matthews",)).score(SINGLE, answers)) == [
        "matthews"
    ]

    gold = [_example("a", "news"), _example("b", "news", "tech")]
    given = [TextAnswer(labels=labels, scores=()) for labels in (("news",), ("news", "sport"))]
    scores = Classification(scheme=TOPICS).score(gold, given)
    assert scores == {
        "f1": pytest.approx(4 / 6), "macro_f1": pytest.approx(1 / 3), "exact": 0.5,
    }  # fmt: skip

    numbers = [_example("a", "1"), _example("b", "2"), _example("c", "4")]
    read = [TextAnswer(labels=("",), scores=(value,)) for value in (1.0, 3.0, 9.0)]
    assert Classification(scheme=NUMBERS).score(numbers, read)["spearman"] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="regression is scored by pearson, spearman, not by f1"):
        scorer(numbers, read, NUMBERS, ["f1"])


def test_perfect_answers_reach_one_whatever_labels_a_set_has() -> None:
    scheme = LabelScheme(("a", "b", "c"))
    single = [_example("x", "a"), _example("y", "c"), _example("z", "c")]
    right = [TextAnswer(labels=each.labels or (), scores=()) for each in single]
    task = Classification(scheme=scheme, metrics=("macro_f1",))
    assert task.score(single, right) == {"macro_f1": 1.0}
    of_draw = task.scorer(single, right)
    assert of_draw(np.array([1, 1, 2])) == {"macro_f1": 1.0}

    several = [_example("x", "news"), _example("y", "news", "tech")]
    right = [TextAnswer(labels=each.labels or (), scores=()) for each in several]
    task = Classification(scheme=TOPICS, metrics=("macro_f1",))
    assert task.score(several, right) == {"macro_f1": 1.0}
    none = [TextAnswer(labels=(), scores=())]
    assert task.score([_example("x")], none) == {"macro_f1": 0.0}


def test_learned_labels_that_a_set_lacks_are_counted() -> None:
    told = absent([_example("x", "news"), _example("y", "news")], TOPICS)
    assert told.startswith("2 of the 3 labels that were learned stand in none of these examples: ")
    assert told.endswith("sport, tech: macro_f1 is the mean over those that stand there or in the "
                         "answers")  # fmt: skip
    assert absent([_example("x", "news", "sport", "tech")], TOPICS) == ""
    assert absent([_example("a", "1")], NUMBERS) == ""


def test_an_unbalanced_set_is_told() -> None:
    examples = [_example("a", "x")] * 19 + [_example("b", "y")]
    told = balance(examples, LabelScheme.of(examples))
    assert told.startswith("x 19 (95.0%), y 1 (5.0%); always saying the most frequent")
    alone = balance([_example("a", "y")] * 3, LabelScheme.of(examples))
    assert alone.endswith("y 3 (100.0%); scores on examples of one label say nothing of the others")
    assert balance([_example("a", "1"), _example("b", "4")], NUMBERS) == (
        "numbers from 1 to 4, mean 2.5"
    )
    same = balance([_example("a", "3"), _example("b", "3")], NUMBERS)
    assert same == "numbers from 3 to 3, mean 3; of one number nothing is correlated"


def test_of_many_labels_the_balance_lists_the_most_frequent() -> None:
    examples = [_example("a", f"x{number}") for number in range(30)]
    told = balance([*examples, examples[7]], LabelScheme.of(examples))
    assert told.startswith("x7 2 (6.5%), x0 1 (3.2%), ")
    assert told.endswith(", and 10 more, the rarest x9 1 (3.2%)")


def test_f1_is_one_labels_where_each_text_has_one_label() -> None:
    scheme = LabelScheme(("no", "yes"))
    assert told_f1(scheme, ("f1",)).startswith("f1 is that of the label 'yes' alone")
    assert told_f1(scheme, ()) == told_f1(scheme, ("accuracy", "f1"))
    assert told_f1(scheme, ("macro_f1",)) == ""
    assert told_f1(LabelScheme(("no", "yes"), "multi_label"), ("f1",)) == ""
    assert told_f1(NUMBERS, ()) == ""
