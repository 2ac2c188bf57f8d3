"""A run of fine-tuning that has ended -> its scores on Dev, a report in its directory, what to say.

It trains nothing. What is tuned on Dev, when a question is not answered, is tuned here.
"""

from __future__ import annotations

import shlex

from bertsmith.checkpoints import store
from bertsmith.runs.answers_report import told, write_report
from bertsmith.runs.finetune_job import Job, Prepared
from bertsmith.runs.finetune_readme import described_run
from bertsmith.runs.finetune_report import answering_model, report, told_mix, write_scores
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.runs.null_threshold import tune_null_threshold
from bertsmith.train.config import Precision


def outcome(
    job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT], precision: Precision, step: int
) -> list[str]:
    """Scores the run's model, which is that of `step`; returns what a person reads at the end."""
    dev, loaded = ready.dev, store.load(job.directory)
    item_scores = dev.item_scores(answering_model(loaded, precision, job.device))
    answers, tuned = tune_null_threshold(loaded.directory, dev, dev.decoded(item_scores))
    scores, known = report(dev, answers), dev.judged(item_scores, answers)
    write_scores(job.directory, scores, step)
    use = f"bertsmith evaluate {shlex.quote(str(job.directory))} {ready.options}"
    described = described_run(job.directory, ready.record, ready.name, use)
    return [
        f"Dev, the model of step {step:,}, on {len(dev.examples):,} examples:",
        *scores.lines(),
        *told(known),
        *filter(None, (tuned, told_mix(loaded.head))),
        *write_report(job.directory, described, scores, known),
        f"{job.directory} holds the model; to score it again, or on other examples:",
        use,
    ]
