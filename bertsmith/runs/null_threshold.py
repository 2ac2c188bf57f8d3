"""A finished run that may give no answer -> the same, with its threshold tuned on Dev and stored.

Source: Devlin et al. 2018, section 4.3 (the threshold is selected on Dev to maximise F1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from bertsmith.files import read_json, write_json
from bertsmith.reading.squad_json import Question
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.tasks.squad_answers import FoundAnswer
from bertsmith.tasks.squad_evaluation import tuned_threshold, with_threshold
from bertsmith.tasks.stored import TASK
from bertsmith.tasks.task import SpanAnswering, to_json


def tune_null_threshold(
    model: Path, dev: ReadExamples[ExampleT, EncodedT, AnswerT], answers: Sequence[AnswerT]
) -> tuple[Sequence[AnswerT], str]:
    """The answers by the threshold that is now in `model`'s task.json, and a line that says so.

    Of a task that always answers they are as they were, and nothing is written or said.
    """
    task: object = dev.task
    if not isinstance(task, SpanAnswering) or not task.config.with_null:
        return answers, ""
    questions = cast(Sequence[Question], dev.examples)
    found = cast(Sequence[FoundAnswer], answers)
    threshold = tuned_threshold(questions, found)
    tuned = replace(task, config=replace(task.config, null_threshold=threshold))
    write_json(model / TASK, {**read_json(model / TASK), **to_json(tuned)})
    told = f"no answer is given above null odds of {threshold:.4g}, the best for F1 on these"
    return cast(Sequence[AnswerT], with_threshold(found, threshold)), told
