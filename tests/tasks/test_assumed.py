"""Of a head that nobody has described, only what its config says is taken for known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bertsmith.model.task import TaskHeadConfig
from bertsmith.tasks.assumed import assumed_task, fitted, require_same_head
from bertsmith.tasks.classify import LabelScheme
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
from tests.checkpoints.fine_tuned import HEADS

ENTITIES = ("O", "B-PER", "I-PER", "B-LOC")


def sequence(labels: tuple[str, ...], problem: str | None = None) -> TaskHeadConfig:
    return TaskHeadConfig(
        kind="sequence_classification",
        labels=labels,
        problem_type=problem,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (sequence(("no", "yes")), LabelScheme(("no", "yes"))),
        (sequence(("a", "b"), "multi_label_classification"),
         LabelScheme(("a", "b"), "multi_label")),
        (sequence(("LABEL_0",)), LabelScheme(("score",), "regression")),
        (sequence(("x",), "regression"), LabelScheme(("score",), "regression")),
    ],
)  # fmt: skip
def test_the_problem_follows_the_config_else_the_number_of_scores(
    head: TaskHeadConfig, expected: LabelScheme
) -> None:
    task, note = assumed_task(head, 512)
    assert task == Classification(scheme=expected, max_tokens=512)
    assert note.startswith("no task.json says how examples are read; assumed")
    assert from_json(to_json(task)) == task
    with pytest.raises(ValueError, match="gives 2 numbers a text"):
        assumed_task(sequence(("a", "b"), "regression"), 512)


@pytest.mark.parametrize(
    ("kind", "limit", "expected"),
    [
        ("token_classification", 24,
         Tagging(scheme=TagScheme(ENTITIES, True),
                 config=TagConfig(context="sentence", max_tokens=24))),
        ("multiple_choice", 1024, MultipleChoice(max_tokens=512)),
        ("question_answering", 512, SpanAnswering(config=SquadConfig())),
        ("question_answering", 24, SpanAnswering(config=SquadConfig(
            max_tokens=24, max_question_tokens=6, doc_stride=7))),
    ],
)  # fmt: skip
def test_sequences_are_as_long_as_the_model_reads(kind: str, limit: int, expected: AnyTask) -> None:
    task, _ = assumed_task(HEADS[kind], limit)  # type: ignore[index]
    assert task == expected
    assert fitted(task, limit) == task


@pytest.mark.parametrize("labels", [("NOUN", "VERB"), ("O",), ("LABEL_0", "LABEL_1")])
def test_tags_that_are_no_bio_are_no_entities(labels: tuple[str, ...]) -> None:
    head = TaskHeadConfig(kind="token_classification", labels=labels)
    task, _ = assumed_task(head, 24)
    assert isinstance(task, Tagging)
    assert not task.scheme.is_of_entities


def test_a_stored_task_is_cut_to_what_the_model_reads() -> None:
    tasks = (
        Classification(scheme=LabelScheme(("a", "b")), max_tokens=128),
        MultipleChoice(max_tokens=128),
        Tagging(scheme=TagScheme(ENTITIES, True)),
        SpanAnswering(config=SquadConfig(max_question_tokens=4, doc_stride=4)),
    )
    for task in tasks:
        found = fitted(task, 24)
        config = found if isinstance(found, Classification | MultipleChoice) else found.config
        assert config.max_tokens == 24
        assert fitted(found, 512) == found


def test_a_task_of_another_head_is_refused() -> None:
    task = Classification(scheme=LabelScheme(("bad", "good", "나쁨"), "multi_label"))
    own = HEADS["sequence_classification"]
    require_same_head(task, own, "task.json")
    require_same_head(task, replace(own, labels=("LABEL_0", "LABEL_1", "LABEL_2")), "task.json")
    for other in (replace(own, labels=("bad", "good", "x")), HEADS["token_classification"]):
        with pytest.raises(ValueError, match=r"task\.json is of .*they do not belong together"):
            require_same_head(task, other, "task.json")
