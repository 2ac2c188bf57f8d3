"""A fine-tuned model's answers are those of its training's own path, with probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertsmith.checkpoints import store
from bertsmith.inference import Predictor
from bertsmith.model.task import TaskKind
from bertsmith.runs.finetune_report import answering_model
from bertsmith.runs.learning_set import ReadExamples
from bertsmith.tasks.asked import (
    Asked,
    choices_of,
    questions_of,
    texts_to_classify,
    texts_to_tag,
)
from bertsmith.tasks.classify import Problem
from bertsmith.tasks.entities import as_iob2, entities
from bertsmith.tasks.task import Tagging
from tests.checkpoints.fine_tuned import HEADS, fine_tuned
from tests.checkpoints.tiny import tiny_model, tiny_tokenizer
from tests.tasks.answering import PASSAGE, TASKS, classification, spans, write_answering

TEXTS = ["the dog likes my cat .", "a", ("my dog", "he likes playing ."), "dog " * 40, "the dog"]
QUESTIONS = [("is he ?", PASSAGE), ("paris", "the dog"), ("my cat is a dog was", PASSAGE * 3)]
CHOICES = [("he likes", ["my dog", "paris", "a cat"]), ("the dog", ["is", "was hairy " * 9])]
WORDS = ["paris (the dog)", ["my", "cat", "likes", "playings"], "paris , london . " * 30, "", "?!"]
ASKED: dict[TaskKind, tuple[str, Sequence[Any]]] = {
    "sequence_classification": ("classify", TEXTS),
    "token_classification": ("tag", WORDS),
    "multiple_choice": ("choose", CHOICES),
    "question_answering": ("answer", QUESTIONS),
}


def ask(folder: Path, kind: TaskKind, **options: Any) -> list[Any]:
    method, asked = ASKED[kind]
    predictor = Predictor.load(folder, precision="fp32", **options)
    return list(getattr(predictor, method)(asked))


def plain(task: Any, folder: Path, examples: list[Any]) -> list[Any]:
    """As `evaluate` answers, one example at a time."""
    loaded = store.load(folder)
    model = answering_model(loaded, "fp32", next(loaded.model.parameters()).device)
    answers = []
    for example in examples:
        encoded = task.encode([example], loaded.tokenizer)
        read: Any = ReadExamples(task=task, examples=[example], encoded=encoded)
        answers += read.answers(model)
    return answers


@pytest.mark.parametrize("tokens_per_batch", [1, 30, None])
@pytest.mark.parametrize("problem", ["single_label", "multi_label", "regression"])
def test_texts_and_pairs_get_every_probability_in_the_order_asked(
    tmp_path: Path, problem: Problem, tokens_per_batch: int | None
) -> None:
    task = classification(problem)
    folder = write_answering(tmp_path / "m", task)
    found = ask(folder, "sequence_classification", tokens_per_batch=tokens_per_batch)
    examples = texts_to_classify(TEXTS)
    assert [answer.texts for answer in found] == [example.texts for example in examples]
    assert [answer.num_unread for answer in found] == [0, 0, 0, 26, 0]
    for answer, plainly in zip(found, plain(task, folder, examples), strict=True):
        if problem == "regression":
            assert answer.value == pytest.approx(plainly.scores[0], abs=1e-4)
            assert (answer.labels, answer.probabilities) == ((), {})
            continue
        assert answer.labels == plainly.labels
        assert list(answer.probabilities) == list(task.scheme.names)
        assert list(answer.probabilities.values()) == pytest.approx(plainly.scores, abs=1e-5)
        if problem == "single_label":
            assert sum(answer.probabilities.values()) == pytest.approx(1.0)


def test_every_word_of_any_text_has_a_tag_and_entities_have_their_characters(
    tmp_path: Path,
) -> None:
    task = TASKS["token_classification"]
    assert isinstance(task, Tagging)
    folder = write_answering(tmp_path / "m", task)
    found = ask(folder, "token_classification")
    asked = texts_to_tag(WORDS, by_character=False)
    expected = plain(task, folder, [each.sentence for each in asked])
    assert found[1].text == "my cat likes playings"
    assert len(found[2].words) == 120
    assert found[3].words == found[3].entities == ()
    written = [as_iob2(tags) for tags in expected]
    assert written != expected, "the model opens no entity by I-: ask it something else"
    for answer, tags in zip(found, written, strict=True):
        assert [word.tag for word in answer.words] == tags
        for word in answer.words:
            assert answer.text[word.start : word.end] == word.text
            assert word.probability is not None
            assert 1 / 3 < word.probability <= 1.0
    entities_of = [entities(tags) for tags in expected]
    assert sum(map(len, entities_of)) > 5
    for answer, wanted in zip(found, entities_of, strict=True):
        for entity, (first, behind, kind) in zip(answer.entities, wanted, strict=True):
            words = answer.words[first:behind]
            assert (entity.start, entity.end) == (words[0].start, words[-1].end)
            assert answer.text[entity.start : entity.end] == entity.text
            assert entity.kind == kind
            assert entity.probability == pytest.approx(
                math.prod(word.probability for word in words)
            )


def test_a_word_without_a_token_has_a_tag_and_no_probability(tmp_path: Path) -> None:
    folder = write_answering(tmp_path / "m", TASKS["token_classification"])
    (answer,) = Predictor.load(folder, precision="fp32").tag([["paris", "\u200b", "dog"]])
    assert [word.probability is None for word in answer.words] == [False, True, False]


@pytest.mark.parametrize("with_null", [False, True])
def test_answers_are_pieces_of_the_passage_with_probabilities(
    tmp_path: Path, with_null: bool
) -> None:
    task = spans(with_null=with_null)
    folder = write_answering(tmp_path / "m", task)
    found = ask(folder, "question_answering")
    expected = plain(task, folder, questions_of(QUESTIONS))
    assert [answer.num_unread for answer in found] == [0, 0, 2]
    for answer, plainly, (question, passage) in zip(found, expected, QUESTIONS, strict=True):
        assert answer.question.question == question
        assert answer.answer == plainly.text
        assert answer.found.null_odds == pytest.approx(plainly.null_odds, abs=1e-4)
        shares = [each.probability for each in answer.found.candidates]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1.0)
        for each in answer.found.candidates:
            assert passage[each.start :].startswith(each.text)
        if answer.answer:
            assert passage[answer.start :].startswith(answer.answer)
        else:
            assert answer.probability == answer.no_answer_probability
        assert (answer.no_answer_probability is None) is not with_null


@pytest.mark.parametrize(("threshold", "is_given"), [(-1e9, False), (1e9, True)])
def test_a_threshold_decides_when_no_answer_is_given(
    tmp_path: Path, threshold: float, is_given: bool
) -> None:
    folder = write_answering(tmp_path / "m", spans())
    predictor = Predictor.load(folder, precision="fp32")
    predictor.fine_tuned.with_null_threshold(threshold)
    stored = write_answering(tmp_path / "n", spans(with_null=True, null_threshold=threshold))
    for found in (predictor.answer(QUESTIONS), ask(stored, "question_answering")):
        assert [bool(answer.answer) for answer in found] == [is_given] * len(QUESTIONS)
        assert all(answer.found.best.text for answer in found)


def test_the_likeliest_choice_is_chosen_among_any_number(tmp_path: Path) -> None:
    task = TASKS["multiple_choice"]
    folder = write_answering(tmp_path / "m", task)
    found = ask(folder, "multiple_choice")
    for answer, plainly in zip(found, plain(task, folder, choices_of(CHOICES)), strict=True):
        assert answer.choice == plainly.choice == int(np.argmax(answer.probabilities))
        assert answer.probabilities == pytest.approx(plainly.probabilities, abs=1e-5)
    assert [answer.num_unread for answer in found] == [0, 7]


@pytest.mark.parametrize("kind", HEADS)
def test_a_model_without_a_task_answers_by_its_config_and_says_what_is_assumed(
    tmp_path: Path, kind: TaskKind
) -> None:
    model, head = fine_tuned(HEADS[kind])
    store.save(tmp_path / "m", model, model.config, tiny_tokenizer(), head=head)
    predictor = Predictor.load(tmp_path / "m", precision="fp32")
    assert len(ask(tmp_path / "m", kind)) == len(ASKED[kind][1])
    assert predictor.fine_tuned.task.head.kind == kind
    assert "assumed" in predictor.fine_tuned.notes[0]
    if kind == "sequence_classification":
        (answer,) = predictor.classify(["the dog"])
        assert tuple(answer.probabilities) == HEADS[kind].labels


def test_other_questions_than_the_tasks_and_other_models_are_refused(tmp_path: Path) -> None:
    write_answering(tmp_path / "m", TASKS["multiple_choice"])
    predictor = Predictor.load(tmp_path / "m")
    with pytest.raises(ValueError, match="m learned MultipleChoice, and was asked for Tagging"):
        predictor.tag(["paris"])
    store.save(tmp_path / "bare", tiny_model(), tiny_model().config, tiny_tokenizer())
    with pytest.raises(ValueError, match="bare holds no task head: fine-tune it first"):
        Predictor.load(tmp_path / "bare").classify(["paris"])
    write_answering(tmp_path / "c", classification())
    classifier = Predictor.load(tmp_path / "c")
    with pytest.raises(TypeError, match=r"found one: write classify\(\[text\]\)"):
        classifier.classify("paris")
    with pytest.raises(ValueError, match="text 2: expected a text or a pair of texts"):
        classifier.classify(["paris", ("a", "b", "c")])  # type: ignore[list-item]
    assert classifier.classify([]) == []


@pytest.mark.parametrize(
    ("asked", "fault"),
    [
        (texts_to_classify(["?!"])[0], ""),
        (texts_to_classify([("paris", "\u200b")])[0], "has no token"),
        (texts_to_tag(["\u200b"], by_character=False)[0], ""),
        (questions_of([("\u0301", PASSAGE)])[0], "has no token: nothing in it can be read"),
        (choices_of([("he", ["a", "\u200b"])])[0], "has no token"),
    ],
)
def test_a_question_of_which_nothing_can_be_read_is_told(
    tmp_path: Path, asked: Asked, fault: str
) -> None:
    folder = write_answering(tmp_path / "m", classification())
    found = Predictor.load(folder).fine_tuned.unreadable(asked)
    assert fault in found if fault else not found
