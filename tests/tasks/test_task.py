"""Tasks of every kind survive their file, and scores that are gold are answered with gold."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.squad_json import Answer, Question
from bertsmith.tasks.choose import ChoiceExample
from bertsmith.tasks.classify import LabelScheme, TextExample
from bertsmith.tasks.entities import entities
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.squad_scores import squad_scores
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
        drawn = [examples[n] for n in numbers], [answers[n] for n in numbers]
        found = scorer(numbers)
        assert found == pytest.approx(plain_scores(task, *drawn), abs=1e-12)
        assert list(found) == list(task.score(*drawn))
        differing.add(next(iter(found.values())))
    assert len(differing) > 1


def test_a_draw_without_a_kind_of_entity_has_no_score_of_it() -> None:
    task, sentences = DRAWN["two kinds"]
    scorer = task.scorer(sentences, [["B-X", "O"], ["B-Y"], ["O", "O"]])
    assert {name: scorer(np.array([1, 1, 2]))[name] for name in ("f1", "f1 Y")} == {
        "f1": 1.0, "f1 Y": 1.0
    }  # fmt: skip
    assert "f1 X" not in scorer(np.array([1, 1, 2]))
    assert scorer(np.array([2])) == {"f1": 0.0, "precision": 0.0, "recall": 0.0}


def plain_scores(task: AnyTask, examples: list[Any], answers: list[Any]) -> dict[str, float]:
    """Every metric from its definition."""
    if isinstance(task, SpanAnswering):
        gold = {str(number): each.gold for number, each in enumerate(examples)}
        texts = {str(number): each.text for number, each in enumerate(answers)}
        scores = squad_scores(texts, gold, task.version)
        return {"f1": scores.f1, "exact": scores.exact}
    if isinstance(task, MultipleChoice):
        pairs = zip(examples, answers, strict=True)
        return {"accuracy": mean(example.label == answer.choice for example, answer in pairs)}
    if isinstance(task, Tagging):
        return plain_tag_scores(task, examples, answers)
    names, metrics = task.scheme.names, sklearn.metrics
    gold_labels = [example.labels for example in examples]
    if task.scheme.problem == "regression":
        sides = [float(each[0]) for each in gold_labels], [each.scores[0] for each in answers]
        return {
            "pearson": scipy.stats.pearsonr(*sides)[0],
            "spearman": scipy.stats.spearmanr(*sides)[0],
        }
    if task.scheme.problem == "multi_label":
        rows = [[[name in each for name in names] for each in side]
                for side in (gold_labels, [each.labels for each in answers])]  # fmt: skip
        return {
            "f1": metrics.f1_score(*rows, average="micro"),
            "macro_f1": metrics.f1_score(*rows, average="macro"),
            "exact": metrics.accuracy_score(*rows),
        }
    both = [each[0] for each in gold_labels], [each.labels[0] for each in answers]
    scored = {
        "accuracy": metrics.accuracy_score(*both),
        "macro_f1": metrics.f1_score(*both, labels=names, average="macro", zero_division=0),
        "f1": metrics.f1_score(*both, labels=names[1:2], average="micro", zero_division=0),
        "matthews": metrics.matthews_corrcoef(*both),
    }
    return {name: scored[name] for name in task.metrics or scored}


def plain_tag_scores(
    task: Tagging, examples: list[Any], answers: list[list[str]]
) -> dict[str, float]:
    """Sums over sentences of words, or of entities by kind."""
    gold = [task.scheme.tags_of(example) for example in examples]
    if not task.scheme.is_of_entities:
        words = [
            ours == theirs
            for both in zip(answers, gold, strict=True)
            for ours, theirs in zip(*both, strict=True)
        ]
        return {"accuracy": mean(words)}
    wanted, found = (
        {(number, each) for number, tags in enumerate(side) for each in entities(tags)}
        for side in (gold, answers)
    )
    right = wanted & found

    def f1(kind: str) -> float:
        counts = [
            sum(not kind or each.kind == kind for _, each in some)
            for some in (right, wanted, found)
        ]
        return 2 * counts[0] / (counts[1] + counts[2])

    kinds = {each.kind for _, each in wanted | found}
    return {
        "f1": f1("") if kinds else 0.0,
        "precision": len(right) / len(found) if found else 0.0,
        "recall": len(right) / len(wanted) if wanted else 0.0,
        **{f"f1 {kind}": f1(kind) for kind in kinds},
    }
