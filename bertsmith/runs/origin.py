"""A run's directory -> what its model's card can tell: texts, recipe and figures.

What is not on the disk any more is left out. It does not know where the card goes.
"""

from __future__ import annotations

import re
from pathlib import Path

from bertsmith.checkpoints.card import Origin
from bertsmith.corpus import manifest
from bertsmith.corpus.manifest import Manifest
from bertsmith.runs.directory import Record, is_pretraining, read_record
from bertsmith.runs.progress import duration
from bertsmith.train.log import read_metrics

_STEP = re.compile(r"step-[0-9]+")
_FIGURES = {
    "evaluation_loss": ("loss", "{:.3f} nats"),
    "evaluation_perplexity": ("perplexity", "{:.2f}"),
    "evaluation_accuracy": ("accuracy", "{:.1%}"),
    "evaluation_next_accuracy": ("next sentence", "{:.1%}"),
    "evaluation_next_balanced_accuracy": ("next sentence, balanced", "{:.1%}"),
    "evaluation_next_majority": ("next sentence, majority label", "{:.1%}"),
}


def run_of(checkpoint: Path) -> Path | None:
    """The pre-training run's directory that a checkpoint lies in; None for any other model.

    What lies beside the checkpoints under another name, a copy say, is none of the run's steps.
    """
    run = checkpoint.resolve().parent.parent
    is_step = checkpoint.parent.name == "checkpoints" and _STEP.fullmatch(checkpoint.name)
    return run if is_step and is_pretraining(run) else None


def origin_of(checkpoint: Path) -> tuple[Origin | None, str | None]:
    """What the run around a checkpoint knows of it, and its language; (None, None) outside runs.

    The figures are those of the checkpoint's own step.
    """
    run = run_of(checkpoint)
    if run is None:
        return None, None
    record = read_record(run)
    corpus = _manifest(record.corpus)
    language = corpus.settings.get("language", "auto") if corpus else "auto"
    step = int(checkpoint.name.removeprefix("step-"))
    rows = read_metrics(run / "metrics.jsonl") if (run / "metrics.jsonl").is_file() else []
    rows = [row for row in rows if int(row["step"] or 0) <= step]
    origin = Origin(
        data=_data(record, corpus), recipe=_recipe(record, rows, step), results=_results(rows, step)
    )
    return origin, None if language == "auto" else language


Row = dict[str, int | float | str | bool | None]


def _manifest(corpus: Path) -> Manifest | None:
    return Manifest.read(corpus) if (corpus / manifest.FILE_NAME).is_file() else None


def _data(record: Record, corpus: Manifest | None) -> tuple[str, ...]:
    name = f"corpus `{record.corpus.name}`, fingerprint `{record.corpus_fingerprint[:16]}`"
    unigram = f"unigram entropy {record.unigram_entropy:.3f} nats a token"
    if corpus is None:
        return name, unigram
    facts = corpus.report
    counts = (
        f"{facts.documents:,} documents ({facts.held_out_documents:,} held out), "
        f"{facts.sentences:,} sentences, {facts.tokens:,} tokens, {facts.characters:,} characters"
    )
    return name, counts, unigram


def _recipe(record: Record, rows: list[Row], step: int) -> tuple[str, ...]:
    run = record.run
    phases = "; ".join(
        f"{phase.steps:,} of {phase.batch_size} sequences of at most {phase.sequence_length} tokens"
        for phase in run.phases
    )
    done = f"{step:,} steps" if step == run.num_steps else f"{step:,} of {run.num_steps:,} steps"
    seconds = sum(float(row.get("seconds") or 0.0) for row in rows)
    tokens = sum(float(row.get("tokens") or 0) for row in rows)
    took = f", {tokens / 1e6:,.1f}M tokens in {duration(seconds)}" if seconds else ""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    fingerprint = record.model_fingerprint[:16]
    return (
        f"`{record.command}`",
        *([f"went on from `{record.model}`, weights `{fingerprint}`"] if record.model else []),
        *record.ancestry,
        f"{done}: {phases}{took}; {run.precision}, seed {run.seed}",
        f"{run.optimizer.name}, peak learning rate {run.optimizer.learning_rate:g}, "
        f"{run.warmup_steps:,} steps of warm-up",
        versions,
    )


def _results(rows: list[Row], step: int) -> tuple[tuple[str, str], ...]:
    own = [row for row in rows if row["step"] == step and "evaluation_loss" in row]
    if not own:
        return ()
    return tuple(
        (name, form.format(own[-1][column]))
        for column, (name, form) in _FIGURES.items()
        if isinstance(own[-1].get(column), int | float)
    )
