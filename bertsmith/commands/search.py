"""`bertsmith search`: a grid of values and random restarts -> the best fine-tuned model on Dev.

    bertsmith search mini-en --glue GLUE --task RTE --restarts 5
    bertsmith search mini-en --glue GLUE --task RTE --grid.learning-rates 1e-4 5e-5 --epochs 4
    bertsmith search --resume runs/mini-en-RTE-search

Every run is one of `bertsmith finetune`, to the bit, in a directory of its own. What all of them
begin with is read once. A search that was stopped goes on with the run that it was in, and with
more values or restarts it goes on to these. It does not know where examples come from.

Source: Devlin et al. 2018, section 4.1 (restarts) and appendix A.3 (the exhaustive search).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Generic

import torch
from rich.console import Console

from bertsmith.commands import finetune
from bertsmith.commands.search_options import Search, defaults_of, grid_of
from bertsmith.files import lock
from bertsmith.recipes.finetuning import FinetuneRun, Grid, to_json
from bertsmith.runs.directory import RECORD, versions
from bertsmith.runs.divergence import DivergedError
from bertsmith.runs.ensemble import ItemScores
from bertsmith.runs.failure import Guessing
from bertsmith.runs.finetune_job import Job, Prepared, prepared, require_same_request
from bertsmith.runs.finetune_record import SEARCH, read_finetune_record
from bertsmith.runs.finetune_start import Start, read_start
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.progress import say
from bertsmith.runs.search_record import (
    Results,
    SearchRecord,
    name_of,
    point_name,
    read_results,
    read_search_record,
    write_results,
    write_search_record,
)
from bertsmith.runs.search_results import ensemble_of, keep_best_model, result_of
from bertsmith.runs.search_table import best_of, table, write_readme
from bertsmith.train.device import ALONE, choose_device, processes_of_environment

__all__ = ["Search", "defaults_of", "search", "search_runs"]

_FLOATS_KEPT = 5
"""Of each weight: the best model, the last one, and the trainer's weight and two moments."""


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

    def of(self, run: FinetuneRun) -> Job:
        """One run of the search, as `bertsmith finetune` would be asked for it."""
        return Job(
            model=self.model,
            run=run,
            directory=self.directory / name_of(run),
            request={**self.request, "run": json.loads(json.dumps(to_json(run)))},
            command=self.command,
            device=self.device,
        )


@dataclass(frozen=True, kw_only=True)
class _Search(Generic[ExampleT, EncodedT, AnswerT]):
    """A search that is under way."""

    job: SearchJob
    record: SearchRecord
    learning: LearningSet[ExampleT, EncodedT, AnswerT]
    start: Start[ExampleT, EncodedT, AnswerT]
    first: Prepared[ExampleT, EncodedT, AnswerT]
    """The first run, for what its plan says of all."""
    results: Results

    def write(self) -> None:
        """Keeps what has ended."""
        write_results(self.job.directory, self.results)
        origin = [f"{name}: {value}" for name, value in self.first.about if name]
        write_readme(self.job.directory, self.record, self.results, self.learning.options, origin)


def search(options: Search) -> None:
    """Reads the examples that the options name, and carries out what is left of the search.

    Ctrl-C saves, says how to go on, and raises KeyboardInterrupt.
    """
    if processes_of_environment().world_size > 1:
        raise ValueError("search runs in one process: start it without torchrun")
    directory, request = _asked(options)
    began = read_search_record(directory) if (directory / SEARCH).is_file() else None
    resumed = began if options.resume is not None else None
    job = SearchJob(
        model=str(request["model"]),
        run=resumed.run if resumed else options.run,
        grid=resumed.grid if resumed else grid_of(options),
        restarts=resumed.restarts if resumed else options.restarts,
        directory=directory,
        request=request,
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        device=choose_device(
            settle_machine(options.device, options.threads, began.versions if began else {})
        ),
    )
    learning = finetune.learning_of(request)
    search_runs(job, learning, Console(), plan_only=options.plan_only)


def search_runs(
    job: SearchJob,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    console: Console,
    *,
    plan_only: bool = False,
) -> None:
    """Prints the plan, carries out every run that has not ended, and chooses the best."""
    start = read_start(job.model, learning)
    record = _record(job, start)
    jobs = [job.of(run) for point in record.points() for run in point]
    for each in jobs:  # what a run refuses is told before the first one trains
        require_same_request(each.directory, each.request)
    first = prepared(jobs[0], learning, start)
    results = read_results(job.directory)
    going = _Search(
        job=job, record=record, learning=learning, start=start, first=first, results=results
    )
    finetune.say_plan(console, [*first.about, *_plan(going)], first.warnings)
    if plan_only:
        return
    with lock(job.directory / ".lock"):
        write_search_record(job.directory, record)
        _run_all(going, console)
        going.write()
        best = best_of(results)
        if best is not None:
            keep_best_model(job.directory, best.name)
    for line in ["", *table(record, results)]:
        say(console, line)
    if best is not None:
        say(console, f"{job.directory / 'best'} holds its model; to score it again, or elsewhere:")
        say(console, f"bertsmith evaluate {shlex.quote(str(job.directory))} {learning.options}")


def _asked(options: Search) -> tuple[Path, dict[str, object]]:
    """The search's directory, which need not be there, and what every run is asked for."""
    if options.resume is not None:
        finetune.require_alone(options)
        return options.resume, read_search_record(options.resume).request
    if not options.model:
        raise ValueError(
            "name a model (bertsmith search mini-en --glue DIR --task RTE), or a search to "
            "continue (bertsmith search --resume DIR)"
        )
    request = finetune.request_of(options)
    directory = finetune.directory_for(request)
    request.pop("run")
    return options.out or directory.with_name(f"{directory.name}-search"), request


def _record(job: SearchJob, start: Start[ExampleT, EncodedT, AnswerT]) -> SearchRecord:
    """What is to be kept of the search. Raises ValueError where the directory holds another one."""
    record = SearchRecord(
        run=job.run,
        grid=job.grid,
        restarts=job.restarts,
        model_fingerprint=start.model_fingerprint,
        examples_fingerprint=start.examples_fingerprint,
        request=job.request,
        command=job.command,
        versions=versions(job.device, ALONE),
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
    if began.request != job.request or _common(began.run) != _common(job.run):
        raise ValueError(
            f"{job.directory} holds another search (`{began.command}`); choose another directory "
            f"with --out, or continue it with `bertsmith search --resume {job.directory}`"
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


def _plan(going: _Search[ExampleT, EncodedT, AnswerT]) -> list[tuple[str, str]]:
    """What is searched, and what it takes: (what, value)."""
    record, job, first = going.record, going.job, going.first
    points, names = record.points(), record.names()
    plan = first.plan
    steps = sum(
        len(point) * max(1, int(plan.labelled.num_groups * point[0].epochs / point[0].batch_size))
        for point in points
    )
    seeds = ", ".join(str(run.seed) for run in points[0])
    size = 4 * sum(each.numel() for each in first.model.parameters()) * _FLOATS_KEPT * len(names)
    lines = [
        (
            "search",
            f"{len(points)} points of {record.restarts} seeds: {len(names)} runs, {steps:,} steps "
            f"in all; {sum(name in going.results.runs for name in names)} have ended",
        ),
        ("grid", _described(record.grid)),
        ("seeds", seeds),
        ("evaluation", dict(first.steps)["evaluation"]),
        ("disk", f"{size / 1e9:.2g} GB in {job.directory}"),
    ]
    return [*lines, *(("note", note) for note in first.record.notes)]


def _described(grid: Grid) -> str:
    return "; ".join(
        f"{name} {', '.join(f'{value:g}' for value in values)}"
        for name, values in (
            ("batch", grid.batch_sizes),
            ("rate", grid.learning_rates),
            ("epochs", grid.epochs),
        )
    )


def _run_all(going: _Search[ExampleT, EncodedT, AnswerT], console: Console) -> None:
    names, results = going.record.names(), going.results
    guessing = Guessing.on(going.start)
    for point in going.record.points():
        said: dict[str, ItemScores] = {}
        for run in point:
            name = name_of(run)
            if name in results.runs:
                continue
            say(console, "")
            say(console, f"run {names.index(name) + 1} of {len(names)}: {name}")
            item_scores = _run_one(going, run, console)
            if item_scores is not None:
                said[name] = item_scores
            result = result_of(going.job.directory / name, run.seed, guessing)
            if result.failure:
                say(console, f"failed: {result.failure}")
            results.runs[name] = result
            going.write()
        ensemble = ensemble_of(going.job.directory, point, results, going.start, said)
        if ensemble is not None:
            results.ensembles[point_name(point[0])] = ensemble


def _run_one(
    going: _Search[ExampleT, EncodedT, AnswerT], run: FinetuneRun, console: Console
) -> ItemScores | None:
    """Fine-tunes, and returns the scores of each Dev item; None where the run has diverged."""
    job = going.job.of(run)
    with finetune.held(job.directory):
        ready = prepared(job, going.learning, going.start)
        go_on = ["search", "--resume", str(going.job.directory)]
        try:
            return finetune.carry_out(job, ready, console, go_on)
        except DivergedError as error:
            say(console, str(error))
            return None
