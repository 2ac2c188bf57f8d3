"""What a model that may give no answer says of Dev -> the same by the threshold that is best there.

It is tuned at every evaluation, so that evaluations choose by what the report will say; the
threshold of the model that is kept is stored with it.

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


def tuned_on_dev(
    dev: ReadExamples[ExampleT, EncodedT, AnswerT], answers: Sequence[AnswerT]
) -> tuple[Sequence[AnswerT], float | None]:
    """The answers by the threshold that is best for them, and it.

    Of a task that always answers they are as they were, and there is no threshold.
    """
    task: object = dev.task
    if not isinstance(task, SpanAnswering) or not task.config.with_null:
        return answers, None
    found = cast(Sequence[FoundAnswer], answers)
    threshold = tuned_threshold(cast(Sequence[Question], dev.examples), found)
    return cast(Sequence[AnswerT], with_threshold(found, threshold)), threshold


def tune_null_threshold(
    model: Path, dev: ReadExamples[ExampleT, EncodedT, AnswerT], answers: Sequence[AnswerT]
) -> tuple[Sequence[AnswerT], str]:
    """The answers by the threshold that is now in `model`'s task.json, and a line that says so.

    Of a task that always answers nothing is written or said.
    """
    tuned_answers, threshold = tuned_on_dev(dev, answers)
    task: object = dev.task
    if threshold is None or not isinstance(task, SpanAnswering):
        return answers, ""
    tuned = replace(task, config=replace(task.config, null_threshold=threshold))
    write_json(model / TASK, {**read_json(model / TASK), **to_json(tuned)})
    return tuned_answers, (
        f"no answer is given above null odds of {threshold:.4g}, the best for F1 on these very "
        f"examples: their scores flatter a little"
    )
