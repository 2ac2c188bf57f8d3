"""Tiny fine-tuned models on disk that answer, one of each kind, and what they are asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bertsmith.checkpoints import store
from bertsmith.files import write_json
from bertsmith.model.task import TaskKind
from bertsmith.tasks.classify import LabelScheme, Problem
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.stored import TASK, Learned, task_json
from bertsmith.tasks.tag import TagConfig
from bertsmith.tasks.tag_scheme import TagScheme
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering, Tagging
from tests.checkpoints.fine_tuned import fine_tuned
from tests.checkpoints.tiny import tiny_tokenizer

PASSAGE = "he likes my dog . the capital of france is paris ? my cat was hairy . london likes a dog"


def classification(problem: Problem = "single_label") -> Classification:
    names = ("score",) if problem == "regression" else ("bad", "good", "나쁨")
    return Classification(scheme=LabelScheme(names, problem), max_tokens=16)


def spans(*, with_null: bool = False, null_threshold: float = 0.0) -> SpanAnswering:
    return SpanAnswering(config=SquadConfig(
        max_tokens=16, doc_stride=4, max_question_tokens=4, max_answer_tokens=3, num_best=5,
        with_null=with_null, null_threshold=null_threshold,
    ))  # fmt: skip


TASKS: dict[TaskKind, AnyTask] = {
    "sequence_classification": classification(),
    "token_classification": Tagging(
        scheme=TagScheme(("O", "B-PER", "I-PER"), is_of_entities=True),
        config=TagConfig(max_tokens=16),
    ),
    "multiple_choice": MultipleChoice(max_tokens=16),
    "question_answering": spans(),
}


def write_answering(folder: Path, task: AnyTask, learned: Learned | None = None) -> Path:
    """Writes a model that answers at random, with its task beside it."""
    model, head = fine_tuned(replace(task.head, dropout=0.0))
    store.save(folder, model, model.config, tiny_tokenizer(), head=head)
    write_json(folder / TASK, task_json(task, learned or Learned()))
    return folder
