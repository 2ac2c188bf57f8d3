"""A model, a task's examples and a run -> everything ready to train, or what is wrong with them.

All that can be refused is refused here, before the long work. It does not train, and does not know
where examples come from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

import torch

from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.checkpoints.searches import SEARCH
from bertsmith.checkpoints.store import Loaded
from bertsmith.data.labelled import TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.ancestry import ancestry, told_name
from bertsmith.runs.directory import RECORD, changed_versions, versions
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetune_plan import described_examples, described_model, described_steps
from bertsmith.runs.finetune_record import FinetuneRecord, read_finetune_record
from bertsmith.runs.finetune_start import Start, read_start
from bertsmith.runs.finetuning import begin_task_model
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet, ReadExamples
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
    about: list[tuple[str, str]]
    """What all runs of the same model and examples share, line by line: (what, value)."""
    steps: list[tuple[str, str]]
    """The same of this run's own plan."""
    warnings: list[str]

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The whole plan."""
        return [*self.about, *self.steps, *(("note", note) for note in self.record.notes)]

    @property
    def is_finished(self) -> bool:
        """Whether no update is to come."""
        return bool(self.state.extra.get("is_finished"))


def prepared(
    job: Job,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    shared: Start[ExampleT, EncodedT, AnswerT] | None = None,
) -> Prepared[ExampleT, EncodedT, AnswerT]:
    """Loads the model, from the run's newest checkpoint where it has one, and reads the examples.

    `shared` is what another run of the same model and examples has read; it stays as it is. Raises
    ValueError for all that a run cannot begin or go on with.
    """
    began = read_finetune_record(job.directory) if (job.directory / RECORD).is_file() else None
    newest = newest_checkpoint(job.directory) if began is not None else None
    start = shared or read_start(newest or (began.model if began else job.model), learning)
    loaded = start.loaded if shared is None else start.copied()
    train, dev = start.train, start.dev
    run = job.run if began is None else began.run
    plan = TaskPlan(labelled=train.labelled, batch_size=run.batch_size, seed=run.seed)
    # The weights of the newest checkpoint are put back before the first step in either case.
    begin = run if newest is None or shared is not None else replace(run, keep_head=True)
    model, notes = begin_task_model(loaded, learning.task.head, begin)
    now = versions(job.device, ALONE)
    record = began or FinetuneRecord(
        run=replace(run, precision=choose_precision(run.precision, job.device)),
        num_steps=plan.num_steps(run.epochs),
        model=str(loaded.directory.resolve()),
        model_fingerprint=start.model_fingerprint,
        examples_fingerprint=start.examples_fingerprint,
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
        ancestry=ancestry(loaded.directory.resolve()),
        label_counts=learning.label_counts,
    )
    if began is not None:
        _require_unchanged(began, start, newest if shared is None else None)
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
    about = [
        ("model", described_model(told_name(Path(record.model)), model)),
        *(("from" if place == 0 else "", line) for place, line in enumerate(record.ancestry)),
        ("task", f"{learning.name}: {learning.task.head.kind.replace('_', ' ')}"),
        ("training", described_examples(len(train.examples), train.labelled)),
        ("", learning.train_balance),
        ("Dev", described_examples(len(dev.examples), dev.labelled)),
        ("", learning.dev_balance),
        *([] if features is None else [("features", features.described())]),
        ("machine", _machine(job.device, record.run)),
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
        about=about,
        steps=described_steps(record.run, plan, len(train.examples)),
        warnings=warnings,
    )


def require_same_request(directory: Path, asked: Mapping[str, object]) -> None:
    """Raises ValueError when the directory holds another run than `asked`, or a search."""
    if (directory / SEARCH).is_file():
        raise ValueError(
            f"{directory} holds a search, whose runs lie in directories of it: choose another one "
            f"with --out, or continue it with `bertsmith search --resume {directory}`"
        )
    if (directory / RECORD).is_file():
        record = read_finetune_record(directory)
        if record.request != asked:
            raise ValueError(
                f"{directory} holds another run (`{record.command}`); choose another directory "
                f"with --out, or continue it with `bertsmith finetune --resume {directory}`"
            )


def _require_unchanged(
    record: FinetuneRecord, start: Start[ExampleT, EncodedT, AnswerT], newest: Path | None
) -> None:
    if record.examples_fingerprint != start.examples_fingerprint:
        raise ValueError(
            "the examples are others than those the run began with: put them back, or start a new "
            "run in another directory (--out)"
        )
    if newest is None and record.model_fingerprint != start.model_fingerprint:
        raise ValueError(
            f"the weights of {record.model} are others than those the run began with: put them "
            f"back, or start a new run in another directory (--out)"
        )


def _machine(device: torch.device, run: FinetuneRun) -> str:
    where = f"cpu, {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)
    return f"{where}; {run.precision}{'' if run.precision == 'fp32' else ' with fp32 masters'}"
