"""A question of any number of choices is read choice by choice and answered by one of them."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample, decode, encode
from bertsmith.tasks.task import MultipleChoice
from bertsmith.text.tokenizer import Tokenizer

TOKENIZER = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"])


def _example(text: str, *choices: str, label: int | None = 0) -> ChoiceExample:
    return ChoiceExample(text=text, choices=choices, label=label, place="f:1")


EXAMPLES = [_example("a b", "c", "d", label=1), _example("d", "a", "b", "c", label=0)]


def test_each_choice_is_a_sequence_and_the_right_one_is_marked() -> None:
    labelled = encode(EXAMPLES, TOKENIZER, max_tokens=16)
    read = [" ".join(TOKENIZER.vocabulary[id] for id in item.token_ids) for item in labelled.items]
    assert read == [
        "[CLS] a b [SEP] c [SEP]",
        "[CLS] a b [SEP] d [SEP]",
        "[CLS] d [SEP] a [SEP]",
        "[CLS] d [SEP] b [SEP]",
        "[CLS] d [SEP] c [SEP]",
    ]
    assert labelled.groups.tolist() == [0, 0, 1, 1, 1]
    assert [target.tolist() for target in labelled.targets] == [[0], [1], [1], [0], [0]]
    assert list(encode([_example("a", "b", "c", label=None)], TOKENIZER, 16).targets) == []


def test_probabilities_are_shared_among_the_choices_of_one_question() -> None:
    scores = [np.array([value]) for value in (0.0, np.log(3.0), 1.0, 1.0, 5.0)]
    answers = decode(EXAMPLES, scores)
    assert answers[0] == ChoiceAnswer(choice=1, probabilities=pytest.approx((0.25, 0.75)))
    assert (answers[1].choice, sum(answers[1].probabilities)) == (2, pytest.approx(1.0))
    assert MultipleChoice().score(EXAMPLES, answers) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("example", "message"),
    [
        (_example("a", "b"), "f:1: 1 choice, expected at least 2"),
        (_example("a", "b", "c", label=2), "label 2 is none of the 2 choices"),
        (_example("a", "b", " "), "no word in the text ' '"),
        (_example(" ", "b", "c"), "no word in the text ' '"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused(example: ChoiceExample, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode([example], TOKENIZER, 16)


def test_what_is_scored_needs_a_label() -> None:
    unknown = _example("a", "b", "c", label=None)
    with pytest.raises(ValueError, match="f:1: no label"):
        MultipleChoice().score([unknown], decode([unknown], [np.zeros(1), np.ones(1)]))
