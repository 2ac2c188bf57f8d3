"""A fine-tuned model and labelled examples -> its scores, each with its interval.

It does not know whether the run has just ended or is long over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import torch

from bertsmith.answering import make_ready
from bertsmith.checkpoints.store import Loaded
from bertsmith.files import write_json
from bertsmith.model.heads import TaskHead
from bertsmith.model.layers import forget
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.finetune_record import SCORES
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples
from bertsmith.tasks.classify import TextExample, absent, told_f1
from bertsmith.tasks.metrics import Interval
from bertsmith.tasks.own_faults import is_own
from bertsmith.tasks.task import Classification
from bertsmith.train.config import Precision
from bertsmith.train.device import cast_


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What a model reaches on some examples."""

    num_examples: int
    values: dict[str, float]
    """The metrics by name, the one that chooses first."""
    intervals: dict[str, Interval | None]
    """What each would be on other examples of the same kind, 95 times in 100; None where these
    examples cannot say it, as one alone, or those that are all answered rightly."""
    remarks: tuple[str, ...] = ()
    """Which label's F1 is told, and which labels that were learned the examples lack."""

    def lines(self) -> list[str]:
        """A line for each metric, then the remarks."""
        width = max(map(len, self.values))
        lines = [
            f"  {name:<{width}}  {value:.4g}{told_interval(self.intervals.get(name))}"
            for name, value in self.values.items()
        ]
        return [*lines, *(f"  {remark}" for remark in self.remarks)]


def told_interval(interval: Interval | None) -> str:
    """What stands behind a score; nothing without an interval."""
    return "" if interval is None else f"  (95%: {interval.low:.4g} to {interval.high:.4g})"


def answering_model(
    loaded: Loaded, precision: Precision | Literal["int8"], device: torch.device
) -> TaskModel:
    """The encoder and head of a checkpoint, to answer. Raises ValueError for one without a head.

    The weights are taken as in training, so that scores are those of the run's own evaluations;
    but for int8, which training does not know.
    """
    model = TaskModel(loaded.model.bert, loaded.task_head()).to(device)
    if precision == "int8":
        make_ready(model, precision, device)
    else:
        forget(model)
        cast_(model, precision)
    return model


def told_mix(head: TaskHead | None) -> str:
    """What a head has learned to take of each layer, of 1 in all, and the scale of their sum.

    Empty for one that sums no layers.
    """
    if head is None or head.layer_mix is None:
        return ""
    shares = zip(head.layer_numbers, head.layer_mix.shares().tolist(), strict=True)
    told = ", ".join(f"{number} {each:.3f}" for number, each in shares)
    return f"shares of the layers: {told}; their sum times {head.layer_mix.scale.item():.4g}"


def report(
    examples: ReadExamples[ExampleT, EncodedT, AnswerT], answers: Sequence[AnswerT]
) -> Scores:
    """Scores the answers, and resamples the examples."""
    task: object = examples.task
    lacking = ""
    if isinstance(task, Classification) and not is_own(type(task)):
        lacking = absent(cast(Sequence[TextExample], examples.examples), task.scheme)
    return Scores(
        num_examples=len(examples.examples),
        values=examples.scores(answers),
        intervals=examples.intervals(answers),
        remarks=tuple(filter(None, (whose_f1(task), lacking))),
    )


def whose_f1(task: object) -> str:
    """Which label's F1 a task tells; empty for one that tells none, or is a person's own class."""
    if not isinstance(task, Classification) or is_own(type(task)):
        return ""
    return told_f1(task.scheme, task.metrics)


def write_scores(directory: Path, scores: Scores, step: int, *, tuned: str, chosen: str) -> None:
    """Writes what the run's model reaches on Dev into the run's directory.

    `tuned` says what was tuned on these examples, `chosen` that the model was chosen by them; empty
    for nothing. A score without an interval has null for one.
    """
    intervals = {
        name: None if each is None else [each.low, each.high]
        for name, each in scores.intervals.items()
    }
    write_json(
        directory / SCORES,
        {
            "step": step,
            "num_examples": scores.num_examples,
            "scores": scores.values,
            "intervals_95": intervals,
            **({"chosen_on_dev": chosen} if chosen else {}),
            **({"tuned_on_dev": tuned} if tuned else {}),
        },
    )
