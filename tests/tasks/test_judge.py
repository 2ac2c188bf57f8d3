"""What is said of answers beside their scores, for every kind of task."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks import tag
from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.judge import judged
from bertsmith.tasks.judged import MOST_MISTAKES, Judged
from bertsmith.tasks.metrics import calibration_error, reliability
from bertsmith.tasks.squad_answers import Candidate, FoundAnswer
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging
from tests.checkpoints.tiny import tiny_tokenizer

TASK = Classification(scheme=LabelScheme(("a", "b")))


def text(number: int, *labels: str) -> TextExample:
    return TextExample(texts=(f"text {number}",), labels=labels, place=f"x:{number}")


def said(first: float) -> TextAnswer:
    return TextAnswer(labels=("a",) if first > 0.5 else ("b",), scores=(first, 1.0 - first))


def of(task: Any, examples: list[Any], answers: list[Any]) -> Judged:
    return judged(task, examples, None, [], answers)  # type: ignore[arg-type]


def test_the_surest_wrong_label_comes_first_and_tables_count_each_label() -> None:
    examples = [text(1, "a"), text(2, "b"), text(3, "b"), text(4, "b")]
    found = of(TASK, examples, [said(0.9), said(0.6), said(0.8), said(0.1)])
    assert [(each.place, each.right, each.answer) for each in found.mistakes] == [
        ("x:3", "b", "a"), ("x:2", "b", "a"),
    ]  # fmt: skip
    assert [each.probability for each in found.mistakes] == [0.8, 0.6]
    assert found.num_mistakes == 2
    assert found.confusion is not None
    assert found.confusion.counts.tolist() == [[1, 0], [2, 1]]
    (groups,) = found.groups
    assert groups.rows == (("a", 1, (1 / 3, 1.0, 0.5)), ("b", 3, (1.0, 1 / 3, 0.5)))
    assert found.certainty is not None
    assert found.certainty.is_right.tolist() == [True, False, False, True]
    assert found.certainty.probabilities.tolist() == [0.9, 0.6, 0.8, 0.9]


def test_only_so_many_mistakes_are_listed_and_all_are_counted() -> None:
    count = MOST_MISTAKES + 9
    found = of(TASK, [text(n, "a") for n in range(count)], [said(0.2)] * count)
    assert (len(found.mistakes), found.num_mistakes) == (MOST_MISTAKES, count)


def test_each_label_of_several_is_an_answer_of_its_own() -> None:
    task = Classification(scheme=LabelScheme(("a", "b"), "multi_label"))
    answers = [
        TextAnswer(labels=("a",), scores=(0.9, 0.3)),
        TextAnswer(labels=("a", "b"), scores=(0.6, 0.95)),
    ]
    found = of(task, [text(1, "a", "b"), text(2, "a")], answers)
    assert [(each.place, each.probability) for each in found.mistakes] == [
        ("x:2", 0.95), ("x:1", 0.7),
    ]  # fmt: skip
    assert found.certainty is not None
    assert len(found.certainty.is_right) == 4
    assert found.groups[0].rows == (("a", 2, (1.0, 1.0, 1.0)), ("b", 1, (0.0, 0.0, 0.0)))


def test_of_numbers_the_farthest_comes_first() -> None:
    task = Classification(scheme=LabelScheme(("score",), "regression"))
    answers = [TextAnswer(labels=(str(value),), scores=(value,)) for value in (1.0, 5.0, 2.5)]
    found = of(task, [text(1, "1.5"), text(2, "1"), text(3, "2")], answers)
    assert [each.place for each in found.mistakes] == ["x:2", "x:1", "x:3"]
    assert found.mistakes[0].probability is None
    assert found.numbers is not None
    assert found.numbers.right.tolist() == [1.5, 1.0, 2.0]
    assert found.certainty is None


def test_a_wrong_choice_is_told_in_its_own_words() -> None:
    examples = [
        ChoiceExample(text="he", choices=("runs", "walks"), label=label, place=f"x:{label}")
        for label in (0, 1)
    ]
    found = of(MultipleChoice(), examples, [ChoiceAnswer(choice=0, probabilities=(0.8, 0.2))] * 2)
    (mistake,) = found.mistakes
    assert (mistake.asked, mistake.right, mistake.answer) == ("he", "walks", "runs")


@pytest.mark.parametrize("is_of_entities", [True, False])
def test_a_wrong_word_is_shown_marked_in_its_sentence(is_of_entities: bool) -> None:
    gold = ("O", "B-LOC", "O") if is_of_entities else ("DET", "NAME", "VERB")
    other = ("O", "O", "O") if is_of_entities else ("DET", "VERB", "VERB")
    sentences = [
        TaggedSentence(place=f"x:{n}", words=("the", "dog", "likes"), tags=gold, document=n)
        for n in range(2)
    ]
    scheme = TagScheme.of(sentences)
    task = Tagging(scheme=scheme)
    encoded = task.encode(sentences, tiny_tokenizer())
    numbers = [scheme.labels.index(label) for label in (*gold, *other)]
    scores = [2.0 * np.eye(len(scheme.labels))[[numbers[word] for word in words]]
              for words in encoded.words]  # fmt: skip
    found = judged(task, sentences, encoded, scores, task.decode(sentences, encoded, scores))
    (mistake,) = found.mistakes
    assert (mistake.place, mistake.asked) == ("x:1", "the >>dog<< likes")
    assert (mistake.right, mistake.answer) == (gold[1], other[1])
    assert mistake.probability == pytest.approx(tag.probabilities(encoded, scores)[4])
    if is_of_entities:
        assert found.groups[0].rows == (
            ("all", 2, (1.0, 0.5, 2 / 3)),
            ("LOC", 2, (1.0, 0.5, 2 / 3)),
        )
    else:
        assert found.confusion is not None
        assert found.confusion.counts.sum() == 6


def question(key: str, asked: str, *answers: str) -> Question:
    passage = "The dog was in Paris with my hairy cat that day."
    found = tuple(Answer(text=each, start=passage.index(each)) for each in answers)
    return Question(key=key, question=asked, passage=passage, answers=found, place=f"x:{key}")


def answered(key: str, given: str, probability: float) -> FoundAnswer:
    best = Candidate(given, 0, probability, 0.0, 0.0)
    return FoundAnswer(key=key, text=given, best=best, null_odds=-math.inf, candidates=(best,))


def test_spans_are_grouped_by_question_word_and_answer_length() -> None:
    questions = [
        question("1", "Where was the dog?", "Paris"),
        question("2", "where was the cat?", "in Paris with my"),
        question("3", "Who was there?", "my hairy cat"),
        question("4", "When?"),
    ]
    answers = [
        answered("1", "Paris", 0.9), answered("2", "in Paris", 0.6), answered("3", "dog", 0.5),
        answered("4", "that day", 0.99),
    ]  # fmt: skip
    found = of(SpanAnswering(version="2.0"), questions, answers)
    by_word, by_length = found.groups
    assert [(part, count) for part, count, _ in by_word.rows] == [
        ("where", 2), ("when?", 1), ("who", 1),
    ]  # fmt: skip
    assert by_word.rows[0][2][0] == 50.0
    assert [part for part, _, _ in by_length.rows] == ["no answer", "1 word", "3 to 4 words"]
    assert [each.place for each in found.mistakes] == ["x:4", "x:3", "x:2"]
    assert found.mistakes[0].right == "(no answer)"
    assert "my hairy cat" in found.mistakes[1].asked


def test_of_a_task_of_ones_own_nothing_is_said() -> None:
    assert of(object(), [], []) == Judged()


def test_reliability_is_what_the_calibration_error_sums_up() -> None:
    sure, right = np.array([0.05, 0.55, 0.58, 0.97, 1.0]), np.array([0, 1, 0, 1, 1])
    bins = reliability(sure, right)
    assert bins.counts.tolist() == [1, 0, 0, 0, 0, 2, 0, 0, 0, 2]
    assert bins.right[5] == 0.5
    assert bins.sure[5] == pytest.approx(0.565)
    assert calibration_error(sure, right) == pytest.approx((0.05 + 2 * 0.065 + 2 * 0.015) / 5)
