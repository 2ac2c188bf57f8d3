"""A run that may give no answer leaves with its threshold, and predicts by it."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from bertsmith import fusion
from bertsmith.commands.finetune import fine_tune
from bertsmith.inference import Predictor
from bertsmith.reading.squad_json import Question
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetune_job import Job
from bertsmith.runs.learning_set import ReadExamples
from bertsmith.runs.null_threshold import tune_null_threshold
from bertsmith.tasks.squad_evaluation import tuned_threshold
from bertsmith.tasks.stored import TASK, Learned, read_learned, read_task, task_json
from bertsmith.tasks.task import SpanAnswering
from bertsmith.train.log import read_metrics
from tests.commands.small_task import write_model
from tests.commands.test_finetune_kinds import SETS, SPANS, learning_set, questions
from tests.tasks.answering import TASKS, write_answering


def half_unanswerable(count: int, key: int) -> list[Question]:
    """Every second question asks for what its passage does not hold."""
    found = questions(count, key)
    return [
        replace(each, question="my cat ?", answers=()) if number % 2 else each
        for number, each in enumerate(found)
    ]


def test_the_threshold_is_tuned_on_dev_stored_and_used(tmp_path: Path) -> None:
    task = SpanAnswering(config=replace(SPANS, with_null=True), version="2.0")
    learning = learning_set(task, half_unanswerable(40, 1), half_unanswerable(12, 2))
    learning = replace(learning, task_json=task_json(task, Learned(name="질문")))
    console = Console(file=io.StringIO(), width=200)
    job = Job(
        model=str(write_model(tmp_path / "model")),
        run=FinetuneRun(epochs=2.0, batch_size=8, precision="fp32"),
        directory=tmp_path / "run",
        request={},
        command="bertsmith finetune",
        device=torch.device("cpu"),
    )
    with fusion.unfused():
        fine_tune(job, learning, console)
    predictor = Predictor.load(tmp_path / "run", precision="fp32")
    folder = Path(predictor.name)
    stored = read_task(folder)
    assert isinstance(stored, SpanAnswering)
    assert read_learned(folder) == Learned(name="질문")
    asked = [(each.question, each.passage) for each in learning.dev]
    found = predictor.answer(asked)
    threshold = stored.config.null_threshold
    assert threshold == pytest.approx(
        tuned_threshold(learning.dev, [each.found for each in found]), abs=1e-3
    )
    assert [not each.answer for each in found] == [
        each.found.null_odds > threshold for each in found
    ]
    reached = learning.task.score(learning.dev, [each.found for each in found])
    written = json.loads((tmp_path / "run" / "scores.json").read_text("utf-8"))
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    measured = [row["evaluation_f1"] for row in rows if "evaluation_f1" in row]
    assert max(measured) == pytest.approx(written["scores"]["f1"])  # chosen by what is reported
    told = f"no answer is given above null odds of {threshold:.4g}, the best for F1 on these very"
    assert written["tuned_on_dev"].startswith(told)
    assert told in (tmp_path / "run" / "README.md").read_text("utf-8")
    assert isinstance(console.file, io.StringIO)
    printed = console.file.getvalue()
    assert f"no answer is given above null odds of {threshold:.4g}" in printed
    assert f"f1     {reached['f1']:.4g}" in printed


@pytest.mark.parametrize("kind", SETS)
def test_a_task_that_always_answers_stays_as_it_is(kind: str, tmp_path: Path) -> None:
    learning = SETS[kind]
    folder = write_answering(tmp_path / "m", TASKS["question_answering"])
    before = (folder / TASK).read_bytes()
    encoded: Any = None
    read = ReadExamples(task=learning.task, examples=learning.dev, encoded=encoded)
    answers: list[Any] = []
    assert tune_null_threshold(folder, read, answers) == (answers, "")
    assert (folder / TASK).read_bytes() == before
