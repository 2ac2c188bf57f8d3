"""A search before it begins: what is asked for, whether its directory is another's, its plan.

It does not know where examples come from, and trains nothing.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from bertsmith.checkpoints.searches import SEARCH
from bertsmith.recipes.finetuning import FinetuneRun, Grid, to_json
from bertsmith.runs.directory import RECORD, versions
from bertsmith.runs.finetune_job import Job, Prepared
from bertsmith.runs.finetune_record import read_finetune_record
from bertsmith.runs.finetune_start import Start
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.runs.room import finetuning_bytes, kept_bytes, model_bytes, told_room
from bertsmith.runs.search_record import SearchRecord, name_of, read_search_record
from bertsmith.train.device import ALONE, recorded_precision


@dataclass(frozen=True, kw_only=True)
class SearchJob:
    """What is asked for, wherever the examples come from."""

    model: str
    run: FinetuneRun
    """What all runs have in common."""
    grid: Grid
    restarts: int
    directory: Path
    request: dict[str, object]
    """What every run is asked for, but for the run itself."""
    command: str
    device: torch.device
    features: Path | None = None
    """Where hidden states are kept that a head alone learns from; None: in the search's directory.
    """

    def of(self, run: FinetuneRun) -> Job:
        """One run of the search, as `bertsmith finetune` would be asked for it."""
        return Job(
            model=self.model,
            run=run,
            directory=self.directory / name_of(run),
            request={**self.request, "run": json.loads(json.dumps(to_json(run)))},
            command=self.command,
            device=self.device,
            features=self.features,
        )


def search_record(job: SearchJob, start: Start[ExampleT, EncodedT, AnswerT]) -> SearchRecord:
    """What is to be kept of the search. Raises ValueError where the directory holds another one."""
    record = SearchRecord(
        run=job.run,
        grid=job.grid,
        restarts=job.restarts,
        model_fingerprint=start.model_fingerprint,
        examples_fingerprint=start.examples_fingerprint,
        request=job.request,
        command=job.command,
        versions=versions(job.device, ALONE, recorded_precision(job.run.precision, job.device)),
    )
    if (job.directory / RECORD).is_file():
        held = read_finetune_record(job.directory).command
        raise ValueError(
            f"{job.directory} holds a fine-tuning run (`{held}`): choose another directory with "
            f"--out"
        )
    if not (job.directory / SEARCH).is_file():
        return record
    began = read_search_record(job.directory)
    place = shlex.quote(str(job.directory))
    if began.request != job.request or _common(began.run) != _common(job.run):
        raise ValueError(
            f"{job.directory} holds another search (`{began.command}`); choose another directory "
            f"with --out, or continue it with `bertsmith search --resume {place}`"
        )
    for what, before, now in (
        ("examples", began.examples_fingerprint, record.examples_fingerprint),
        (f"weights of {job.model}", began.model_fingerprint, record.model_fingerprint),
    ):
        if before != now:
            raise ValueError(
                f"the {what} are others than those the search began with: put them back, or start "
                f"a new search in another directory (--out)"
            )
    if left_out := set(began.names()) - set(record.names()):
        raise ValueError(
            f"{job.directory} holds a search with {len(left_out)} runs that are not asked for now "
            f"({min(left_out)}, ...): ask for them too, or choose another directory with --out"
        )
    return record


def _common(run: FinetuneRun) -> Mapping[str, object]:
    """What is not searched."""
    (value,) = Grid(batch_sizes=(run.accumulation,), learning_rates=(0.0,), epochs=(1.0,)).runs(run)
    return to_json(value)


def described_search(
    job: SearchJob,
    record: SearchRecord,
    first: Prepared[ExampleT, EncodedT, AnswerT],
    num_ended: int,
) -> list[tuple[str, str]]:
    """What is searched, and what it takes: (what, value)."""
    points, num_runs = record.points(), len(record.names())
    steps = sum(
        replace(first.plan, batch_size=run.batch_size).num_steps(run.epochs)
        for point in points for run in point
    )  # fmt: skip
    lines = [
        (
            "search",
            f"{len(points)} points of {record.restarts} seeds: {num_runs} runs, {steps:,} steps in "
            f"all; {num_ended} have ended",
        ),
        ("grid", _described(record.grid)),
        ("seeds", ", ".join(str(run.seed) for run in points[0])),
        ("evaluation", dict(first.steps)["evaluation"]),
    ]
    if num_left := num_runs - num_ended:
        lines.append(("disk", told_room(search_bytes(first, num_left), job.directory)))
    return [*lines, *(("note", note) for note in first.record.notes)]


def search_bytes(first: Prepared[ExampleT, EncodedT, AnswerT], num_left: int) -> int:
    """On the disk at most, of so many runs like the first, one being written, and the best model.

    Of that there are two while it is replaced.
    """
    ended = (num_left - 1) * kept_bytes(first.model)
    return ended + finetuning_bytes(first.model) + 2 * model_bytes(first.model)


def _described(grid: Grid) -> str:
    return "; ".join(
        f"{name} {', '.join(f'{value:g}' for value in values)}"
        for name, values in (
            ("batch", grid.batch_sizes),
            ("rate", grid.learning_rates),
            ("epochs", grid.epochs),
        )
    )
