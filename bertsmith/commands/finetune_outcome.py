"""A run of fine-tuning that has ended -> its scores on Dev, a report in its directory, what to say.

It trains nothing. What is tuned on Dev, when a question is not answered, is tuned here.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from bertsmith.checkpoints import store
from bertsmith.runs.answers_report import told, write_report
from bertsmith.runs.ensemble import ItemScores
from bertsmith.runs.failure import Guessing, advice_on, late_loss
from bertsmith.runs.finetune_job import Job, Prepared
from bertsmith.runs.finetune_readme import described_run
from bertsmith.runs.finetune_report import (
    Scores,
    answering_model,
    report,
    told_mix,
    write_scores,
)
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.runs.null_threshold import tune_null_threshold
from bertsmith.train.config import Precision
from bertsmith.train.log import read_metrics


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run has ended with."""

    scores: list[str]
    """What its model reaches on Dev, line by line."""
    details: list[str]
    """What else a person reads at the end."""
    item_scores: ItemScores
    """What the model says of each Dev item."""


def outcome(
    job: Job,
    ready: Prepared[ExampleT, EncodedT, AnswerT],
    precision: Precision,
    step: int,
    early: str,
) -> Outcome:
    """Scores the run's model, which is that of `step`, and writes the report of it.

    `early` says why the run ended before its last step; empty where it did not.
    """
    dev, loaded = ready.dev, store.load(job.directory)
    item_scores = dev.item_scores(answering_model(loaded, precision, job.device))
    answers, tuned = tune_null_threshold(loaded.directory, dev, dev.decoded(item_scores))
    scores, known = report(dev, answers), dev.judged(item_scores, answers)
    count = _num_candidates(job, ready)
    chosen = _told_choice(step, count)
    write_scores(job.directory, scores, step, tuned=tuned, chosen=chosen)
    use = f"bertsmith evaluate {shlex.quote(str(job.directory))} {ready.options}"
    note = _note(job, ready, scores)
    mix = told_mix(loaded.head)
    notes = tuple(filter(None, (early, chosen, tuned, mix, note)))
    described = described_run(job.directory, ready.record, ready.plan, ready.name, use, notes)
    return Outcome(
        scores=[
            f"Dev, the model of step {step:,}, on {len(dev.examples):,} examples"
            + (f", by which it was chosen among {count}:" if chosen else ":"),
            *scores.lines(),
        ],
        details=[
            *told(known),
            *filter(None, (tuned, mix)),
            *write_report(job.directory, described, scores, known),
            *filter(None, (note,)),
            f"{job.directory} holds the model; to score it again, or on other examples:",
            use,
        ],
        item_scores=item_scores,
    )


def _note(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT], scores: Scores) -> str:
    """That the run has learned nothing, and what may help; empty where it has learned."""
    loss = late_loss(read_metrics(job.directory / "metrics.jsonl"))
    advice = advice_on(scores.values, loss, Guessing.on(ready.plan.labelled, ready.dev))
    return f"note  {advice}" if advice else ""


def _num_candidates(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT]) -> int:
    """How many models were measured on Dev, where the best of them is kept; else 1."""
    rows = read_metrics(job.directory / "metrics.jsonl")
    return sum("is_best" in row for row in rows) if ready.record.run.keep_best else 1


def _told_choice(step: int, count: int) -> str:
    """That the scores are those that the model was chosen by; empty where there was no choice."""
    if count < 2:
        return ""
    return (
        f"the model of step {step:,} was chosen among {count} by its score on Dev: its scores "
        f"there flatter"
    )
