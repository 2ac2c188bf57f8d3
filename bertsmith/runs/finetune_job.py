"""A model, a task's examples and a run -> everything ready to train, or what is wrong with them.

All that can be refused is refused here, before the long work. It does not train, and does not know
where examples come from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

import torch

from bertsmith.checkpoints import store
from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.checkpoints.store import Loaded
from bertsmith.data.labelled import TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.directory import RECORD, changed_versions, versions
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetune_plan import described_examples, described_model, described_steps
from bertsmith.runs.finetune_record import FinetuneRecord, read_finetune_record
from bertsmith.runs.finetuning import begin_task_model
from bertsmith.runs.learning_set import (
    AnswerT,
    EncodedT,
    ExampleT,
    LearningSet,
    ReadExamples,
    fingerprint,
    read_examples,
)
from bertsmith.train.device import ALONE, choose_precision
from bertsmith.train.state import TrainerState, read_state


@dataclass(frozen=True, kw_only=True)
class Job:
    """What is asked for, wherever the examples come from."""

    model: str
    """A name, a path or a Hub id."""
    run: FinetuneRun
    directory: Path
    request: dict[str, object]
    """What was asked for, as JSON values: with it the run is known again."""
    command: str
    """What was typed."""
    device: torch.device
    features: Path | None = None
    """Where hidden states of a frozen encoder are kept; None: beside the run's directory."""


@dataclass(frozen=True, kw_only=True)
class Prepared(Generic[ExampleT, EncodedT, AnswerT]):
    """A run that can be trained."""

    record: FinetuneRecord
    loaded: Loaded
    model: TaskModel
    plan: TaskPlan
    features: FrozenFeatures | None
    """What a head learns from that is trained alone."""
    dev: ReadExamples[ExampleT, EncodedT, AnswerT]
    state: TrainerState
    """Where the run stands: at its beginning, or at its newest checkpoint."""
    name: str
    """What to call the examples."""
    options: str
    """How a command line names them."""
    lines: list[tuple[str, str]]
    """The plan, line by line: (what, value)."""
    warnings: list[str]

    @property
    def is_finished(self) -> bool:
        """Whether no update is to come."""
        return bool(self.state.extra.get("is_finished"))


def prepared(
    job: Job, learning: LearningSet[ExampleT, EncodedT, AnswerT]
) -> Prepared[ExampleT, EncodedT, AnswerT]:
    """Loads the model, from the run's newest checkpoint where it has one, and reads the examples.

    Raises ValueError for all that a run cannot begin or go on with.
    """
    began = read_finetune_record(job.directory) if (job.directory / RECORD).is_file() else None
    newest = newest_checkpoint(job.directory) if began is not None else None
    loaded = store.load(newest or (job.model if began is None else began.model))
    train = read_examples(learning.task, learning.train, loaded, "training")
    dev = read_examples(learning.task, learning.dev, loaded, "Dev")
    run = job.run if began is None else began.run
    plan = TaskPlan(labelled=train.labelled, batch_size=run.batch_size, seed=run.seed)
    weights = _fingerprint(loaded)
    begin = run if newest is None else replace(run, keep_head=True)
    model, notes = begin_task_model(loaded, learning.task.head, begin)
    now = versions(job.device, ALONE)
    record = began or FinetuneRecord(
        run=replace(run, precision=choose_precision(run.precision, job.device)),
        num_steps=plan.num_steps(run.epochs),
        model=str(loaded.directory.resolve()),
        model_fingerprint=weights,
        examples_fingerprint=fingerprint(train.labelled, dev.labelled),
        task=dict(learning.task_json),
        request=job.request,
        command=job.command,
        notes=(
            *loaded.notes,
            *notes,
            *learning.notes,
            *(f"training: {note}" for note in train.encoded.notes),
            *(f"Dev: {note}" for note in dev.encoded.notes),
        ),
        versions=now,
    )
    if began is not None:
        _require_unchanged(began, fingerprint(train.labelled, dev.labelled), weights, newest)
    features = None
    if record.run.approach == "feature_based":
        features = FrozenFeatures.of(
            model,
            train.labelled,
            dev.labelled,
            choose_precision(record.run.precision, job.device),
            job.features or job.directory.parent / "features",
            now,
        )
    warnings = [
        f"{change} since it began: the bits are no longer promised"
        for change in changed_versions(record.versions, now)
    ]
    lines = [
        ("model", described_model(Path(record.model).name, model)),
        ("task", f"{learning.name}: {learning.task.head.kind.replace('_', ' ')}"),
        ("training", described_examples(len(train.examples), train.labelled)),
        ("", learning.train_balance),
        ("Dev", described_examples(len(dev.examples), dev.labelled)),
        ("", learning.dev_balance),
        *([] if features is None else [("features", features.described())]),
        *described_steps(record.run, plan, len(train.examples)),
        ("machine", _machine(job.device, record.run)),
        *(("note", note) for note in record.notes),
    ]
    return Prepared(
        record=record,
        loaded=loaded,
        model=model,
        plan=plan,
        features=features,
        dev=dev,
        state=TrainerState(step=0, extra={}) if newest is None else read_state(newest),
        name=learning.name,
        options=learning.options,
        lines=lines,
        warnings=warnings,
    )


def require_same_request(directory: Path, asked: Mapping[str, object]) -> None:
    """Raises ValueError when the directory holds another run than `asked`."""
    if (directory / RECORD).is_file():
        record = read_finetune_record(directory)
        if record.request != asked:
            raise ValueError(
                f"{directory} holds another run (`{record.command}`); choose another directory "
                f"with --out, or continue it with `bertsmith finetune --resume {directory}`"
            )


def _require_unchanged(
    record: FinetuneRecord, examples: str, weights: str, newest: Path | None
) -> None:
    if record.examples_fingerprint != examples:
        raise ValueError(
            "the examples are others than those the run began with: put them back, or start a new "
            "run in another directory (--out)"
        )
    if newest is None and record.model_fingerprint != weights:
        raise ValueError(
            f"the weights of {record.model} are others than those the run began with: put them "
            f"back, or start a new run in another directory (--out)"
        )


def _fingerprint(loaded: Loaded) -> str:
    """SHA-256 of the weights as they were loaded."""
    digest = hashlib.sha256()
    parts = {**loaded.model.state_dict()}
    if loaded.head is not None:
        parts |= {f"head.{name}": each for name, each in loaded.head.state_dict().items()}
    for name in sorted(parts):
        digest.update(name.encode())
        digest.update(parts[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def _machine(device: torch.device, run: FinetuneRun) -> str:
    where = f"cpu, {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)
    return f"{where}; {run.precision}{'' if run.precision == 'fp32' else ' with fp32 masters'}"
