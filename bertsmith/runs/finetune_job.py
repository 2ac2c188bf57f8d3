"""A model, a task's examples and a run -> everything ready to train, or what is wrong with them.

All that can be refused is refused here, before the long work. It does not train, and does not know
where examples come from.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic

import torch

from bertsmith.checkpoints import store
from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.checkpoints.searches import SEARCH
from bertsmith.checkpoints.store import Loaded
from bertsmith.data.labelled import TaskPlan
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.ancestry import ancestry, told_name
from bertsmith.runs.damage import told_with_remedy
from bertsmith.runs.directory import RECORD, changed_versions, versions
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetune_plan import described_examples, described_model, described_steps
from bertsmith.runs.finetune_record import FinetuneRecord, read_finetune_record
from bertsmith.runs.finetune_report import whose_f1
from bertsmith.runs.finetune_start import Start, start_of
from bertsmith.runs.finetuning import begin_task_model
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet, ReadExamples
from bertsmith.train.device import ALONE, choose_precision, recorded_precision, told_precision
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
    start = shared or _start(newest, began.model if began else job.model, learning)
    if began is not None:
        _require_unchanged(began, start, newest if shared is None else None)
    loaded = start.loaded if shared is None else start.copied()
    run = job.run if began is None else began.run
    plan = TaskPlan(labelled=start.train.labelled, batch_size=run.batch_size, seed=run.seed)
    # The weights of the newest checkpoint are put back before the first step in either case.
    begin = run if newest is None or shared is not None else replace(run, keep_head=True)
    model, notes = begin_task_model(loaded, learning.task.head, begin)
    record = began or _first_record(
        job, learning, start, (*loaded.notes, *notes), plan.num_steps(run.epochs)
    )
    features = _features(job, record, model, start)
    return Prepared(
        record=record,
        loaded=loaded,
        model=model,
        plan=plan,
        features=features,
        dev=start.dev,
        state=_state(newest),
        name=learning.name,
        options=learning.options,
        about=[
            ("model", described_model(told_name(Path(record.model)), model)),
            *(("from" if place == 0 else "", line) for place, line in enumerate(record.ancestry)),
            *_about_examples(learning, start),
            *([] if features is None else [("features", features.described())]),
            ("machine", _machine(job.device, record.run)),
        ],
        steps=described_steps(record.run, plan, len(start.train.examples)),
        warnings=[
            f"{change} since it began: the bits are no longer promised"
            for change in changed_versions(
                record.versions, _versions(job, record.run), record.run.precision
            )
        ],
    )


def require_same_request(directory: Path, asked: Mapping[str, object]) -> None:
    """Raises ValueError when the directory holds another run than `asked`, or a search."""
    place = shlex.quote(str(directory))
    if (directory / SEARCH).is_file():
        raise ValueError(
            f"{directory} holds a search, whose runs lie in directories of it: choose another one "
            f"with --out, or continue it with `bertsmith search --resume {place}`"
        )
    if (directory / RECORD).is_file():
        record = read_finetune_record(directory)
        if record.request != asked:
            raise ValueError(
                f"{directory} holds another run (`{record.command}`); choose another directory "
                f"with --out, or continue it with `bertsmith finetune --resume {place}`"
            )


def _start(
    newest: Path | None, model: str, learning: LearningSet[ExampleT, EncodedT, AnswerT]
) -> Start[ExampleT, EncodedT, AnswerT]:
    """With the weights of the newest checkpoint; where there is none yet, with the model's."""
    with told_with_remedy(newest):
        loaded = store.load(newest or model)
    return start_of(loaded, learning)


def _state(newest: Path | None) -> TrainerState:
    if newest is None:
        return TrainerState(step=0, extra={})
    with told_with_remedy(newest):
        return read_state(newest)


def _first_record(
    job: Job,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    start: Start[ExampleT, EncodedT, AnswerT],
    notes: tuple[str, ...],
    num_steps: int,
) -> FinetuneRecord:
    """Of a run that begins; `notes` are of the model."""
    place = start.loaded.place.resolve()
    return FinetuneRecord(
        run=replace(job.run, precision=choose_precision(job.run.precision, job.device)),
        num_steps=num_steps,
        model=str(place),
        model_fingerprint=start.model_fingerprint,
        examples_fingerprint=start.examples_fingerprint,
        train_fingerprint=start.train_fingerprint,
        task=dict(learning.task_json),
        request=job.request,
        command=job.command,
        notes=(
            *notes,
            *learning.notes,
            *(f"training: {note}" for note in start.train.notes),
            *(f"Dev: {note}" for note in start.dev.notes),
        ),
        versions=_versions(job, job.run),
        ancestry=ancestry(place),
        label_counts=learning.label_counts,
    )


def _features(
    job: Job,
    record: FinetuneRecord,
    model: TaskModel,
    start: Start[ExampleT, EncodedT, AnswerT],
) -> FrozenFeatures | None:
    if record.run.approach != "feature_based":
        return None
    return FrozenFeatures.of(
        model,
        start.train.labelled,
        start.dev.labelled,
        recorded_precision(record.run.precision, job.device),
        job.features or job.directory.parent / "features",
        _versions(job, record.run),
    )


def _versions(job: Job, run: FinetuneRun) -> dict[str, str]:
    return versions(job.device, ALONE, recorded_precision(run.precision, job.device))


def _about_examples(
    learning: LearningSet[ExampleT, EncodedT, AnswerT], start: Start[ExampleT, EncodedT, AnswerT]
) -> list[tuple[str, str]]:
    told_f1 = whose_f1(learning.task)
    return [
        ("task", f"{learning.name}: {learning.task.head.kind.replace('_', ' ')}"),
        *([("", told_f1)] if told_f1 else []),
        ("training", described_examples(len(start.train.examples), start.train.labelled)),
        ("", learning.train_balance),
        ("Dev", described_examples(len(start.dev.examples), start.dev.labelled)),
        ("", learning.dev_balance),
    ]


def _require_unchanged(
    record: FinetuneRecord, start: Start[ExampleT, EncodedT, AnswerT], newest: Path | None
) -> None:
    if record.examples_fingerprint != start.examples_fingerprint:
        which = "training examples, and perhaps those of Dev,"
        if record.train_fingerprint == start.train_fingerprint:
            which = "Dev examples"
        elif not record.train_fingerprint:  # of a run of an earlier version
            which = "examples"
        raise ValueError(
            f"the {which} are others than those the run began with (`{record.command}`): put them "
            f"back, or start a new run in another directory (--out)"
        )
    if newest is None and record.model_fingerprint != start.model_fingerprint:
        raise ValueError(
            f"the weights of {record.model} are others than those the run began with: put them "
            f"back, or start a new run in another directory (--out)"
        )


def _machine(device: torch.device, run: FinetuneRun) -> str:
    where = f"cpu, {torch.get_num_threads()} threads" if device.type == "cpu" else str(device)
    return f"{where}; {told_precision(recorded_precision(run.precision, device), device)}"
