"""A fine-tuning run's record -> what its README says beside the results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bertsmith.data.labelled import TaskPlan
from bertsmith.runs.answers_report import Described
from bertsmith.runs.finetune_plan import told_epochs
from bertsmith.runs.finetune_record import SCORES, FinetuneRecord
from bertsmith.train.log import read_metrics


def described_run(
    directory: Path,
    record: FinetuneRecord,
    plan: TaskPlan,
    name: str,
    use: str,
    notes: Sequence[str],
) -> Described:
    """`name` is that of the examples, `use` a command that asks the model something.

    `notes` are lines on what came of the run.
    """
    run, rows = record.run, read_metrics(directory / "metrics.jsonl")
    read = plan.epochs(max(int(row["step"] or 0) for row in rows))
    return Described(
        title=directory.resolve().name,
        examples=f"Dev of {name}",
        before=(
            f"`{record.model}`, fine-tuned by bertsmith {record.versions.get('bertsmith', '')} on "
            f"{name} with the run `{run.name}`: {told_epochs(run.epochs, read)}, batches of "
            f"{run.batch_size}, peak rate {run.optimizer.learning_rate:g}, seed {run.seed}.",
            "",
            *(f"- {line}" for line in record.ancestry),
            *([""] if record.ancestry else []),
            *(line for note in notes for line in (note, "")),
        ),
        after=(
            "## Use it",
            "",
            "```",
            use,
            "```",
            "",
            "## What lies here",
            "",
            "| file | what it is |",
            "|---|---|",
            "| `run.json` | every choice of the run, fingerprints, versions |",
            "| `metrics.jsonl` | one line a step, and the evaluations |",
            f"| `{SCORES}` | the results above as JSON |",
            *_model_line(run.keep_best),
            "| `checkpoints/` | the last model, with the trainer's state |",
            "",
            "## How it was made",
            "",
            f"`{record.command}`",
            "",
            *(f"- {note}" for note in record.notes),
            f"- examples, fingerprint `{record.examples_fingerprint}`",
            *(f"- {what} {version}" for what, version in record.versions.items()),
        ),
        metrics_rows=tuple(rows),
    )


def _model_line(has_best: bool) -> tuple[str, ...]:
    return (
        ("| `best/` | the model that was best on Dev: the one that answers |",) if has_best else ()
    )
