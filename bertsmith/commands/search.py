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

import shlex
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.checkpoints.searches import SEARCH
from bertsmith.commands.finetune_request import (
    directory_for,
    features_of,
    learning_of,
    request_of,
    require_alone,
)
from bertsmith.commands.paths import require_destination, require_no_others
from bertsmith.commands.search_options import Search, defaults_of, grid_of
from bertsmith.commands.trained_run import carry_out, held, measured, say_how_to_go_on, say_plan
from bertsmith.files import claimed
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.directory import RECORD
from bertsmith.runs.divergence import DivergedError
from bertsmith.runs.ensemble import ItemScores
from bertsmith.runs.failure import Guessing
from bertsmith.runs.finetune_job import Prepared, prepared, require_same_request
from bertsmith.runs.finetune_start import Start, start_of
from bertsmith.runs.interruption import Interruption
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.progress import say
from bertsmith.runs.room import require_room
from bertsmith.runs.search_job import SearchJob, described_search, search_bytes, search_record
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
from bertsmith.train.device import choose_device, processes_of_environment

__all__ = ["Search", "defaults_of", "search", "search_runs"]


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
    interruption: Interruption = field(default_factory=Interruption)
    """Ctrl-C in the steps of all its runs."""

    def write(self) -> None:
        """Keeps what has ended, and the model of the best of it."""
        write_results(self.job.directory, self.results)
        if best := best_of(self.results):
            keep_best_model(self.job.directory, best.name)
        origin = [f"{name}: {value}" if name else value for name, value in self.first.about]
        task, options = self.learning.task, self.learning.options
        write_readme(self.job.directory, self.record, self.results, task, options, origin)


def search(options: Search) -> None:
    """Reads the examples that the options name, and carries out what is left of the search.

    Ctrl-C saves, says how to go on, and raises KeyboardInterrupt; in a run's last step that run is
    finished first. Raises ValueError, when all is written and told, where every run has failed.
    """
    if processes_of_environment().world_size > 1:
        raise ValueError("search runs in one process: start it without torchrun")
    directory, request = _asked(options)
    require_destination(directory, (), "the search's")
    if not (directory / RECORD).is_file():  # a run's directory is refused with its command
        require_no_others(directory, SEARCH)
    began = read_search_record(directory) if (directory / SEARCH).is_file() else None
    resumed = began if options.resume is not None else None
    job = SearchJob(
        model=str(request["model"]),
        run=resumed.run if resumed else options.run,
        grid=resumed.grid if resumed else grid_of(options),
        restarts=resumed.restarts if resumed else options.restarts,
        directory=directory,
        request=request,
        command=resumed.command if resumed else shlex.join(["bertsmith", *sys.argv[1:]]),
        features=features_of(request),
        device=choose_device(
            settle_machine(options.device, options.threads, began.versions if began else {})
        ),
    )
    learning = learning_of(request)
    search_runs(job, learning, Console(), plan_only=options.plan_only)


def search_runs(
    job: SearchJob,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    console: Console,
    *,
    plan_only: bool = False,
) -> None:
    """Prints the plan, carries out every run that has not ended, and chooses the best."""
    start = start_of(store.load(job.model), learning)
    record = search_record(job, start)
    jobs = [job.of(run) for point in record.points() for run in point]
    for each in jobs:  # what a run refuses is told before the first one trains
        require_same_request(each.directory, each.request)
    first = prepared(jobs[0], learning, start)
    results = read_results(job.directory)
    going = _Search(
        job=job, record=record, learning=learning, start=start, first=first, results=results
    )
    lines = described_search(job, record, first, len(results.runs))
    say_plan(console, [*first.about, *lines], first.warnings)
    if not plan_only and not (job.directory / SEARCH).is_file():
        size = search_bytes(first, len(jobs))
        require_room(size, job.directory, "the runs' models and checkpoints")
    if len(results.runs) < len(jobs) and not console.quiet:  # where nobody reads it
        say(console, "measuring real steps on this machine ...")
        say_plan(console, [("expected", _expected(going))])
    if plan_only:
        return
    with claimed(job.directory):
        # Read again: until now another process may have held it.
        record, results = search_record(job, start), read_results(job.directory)
        going = replace(going, record=record, results=results)
        write_search_record(job.directory, record)
        _run_all(going, console)
        going.write()
    for line in ["", *table(record, results, learning.task)]:
        say(console, line)
    if best_of(results) is None:
        raise ValueError(f"all {len(jobs)} runs in {job.directory} failed, and none was chosen")
    say(console, f"{job.directory / 'best'} holds its model; to score it again, or elsewhere:")
    say(console, f"bertsmith evaluate {shlex.quote(str(job.directory))} {learning.options}")


def _asked(options: Search) -> tuple[Path, dict[str, object]]:
    """The search's directory, which need not be there, and what every run is asked for."""
    if options.resume is not None:
        record = read_search_record(options.resume)
        _require_no_more_runs(options, record)
        require_alone(options)
        return options.resume, record.request
    if not options.model:
        raise ValueError(
            "name a model (bertsmith search mini-en --glue DIR --task RTE), or a search to "
            "continue (bertsmith search --resume DIR)"
        )
    request = request_of(options)
    directory = directory_for(request)
    request.pop("run")
    return options.out or directory.with_name(f"{directory.name}-search"), request


def _require_no_more_runs(options: Search, record: SearchRecord) -> None:
    """Raises ValueError, saying how to ask for more runs, where --resume is asked for them."""
    more = [each for each in options.typed if each == "--restarts" or each.startswith("--grid.")]
    if more:
        raise ValueError(
            f"--resume takes everything from {options.resume}; to go on to more runs in the same "
            f"directory, repeat the command that began it with {', '.join(more)} in it: "
            f"`{record.command}`"
        )


def _expected(going: _Search[ExampleT, EncodedT, AnswerT]) -> str:
    """What is left of the search will take, in words."""
    first, ended = going.first, going.results.runs
    cost = measured(going.job.of(first.record.run), first)
    runs = [run for point in going.record.points() for run in point if name_of(run) not in ended]
    plans = [replace(first.plan, batch_size=run.batch_size) for run in runs]
    seconds = sum(
        cost.seconds(plan, run, first.dev.labelled, 0)
        for plan, run in zip(plans, runs, strict=True)
    )
    # The hidden states that a head alone learns from are made once.
    return cost.told(seconds - (len(runs) - 1) * cost.seconds_before)


def _run_all(going: _Search[ExampleT, EncodedT, AnswerT], console: Console) -> None:
    names, results = going.record.names(), going.results
    guessing = Guessing.on(going.start.train.labelled, going.start.dev)
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
            if going.interruption.requested:  # in the run's last step
                say_how_to_go_on(console, "stopped after the run", _go_on(going))
                raise KeyboardInterrupt
        ensemble = ensemble_of(
            going.job.directory, point, results, going.start, said, going.job.device
        )
        if ensemble is not None:
            results.ensembles[point_name(point[0])] = ensemble


def _run_one(
    going: _Search[ExampleT, EncodedT, AnswerT], run: FinetuneRun, console: Console
) -> ItemScores | None:
    """Fine-tunes, and returns the scores of each Dev item; None where the run has diverged."""
    job = going.job.of(run)
    with held(job.directory):
        ready = prepared(job, going.learning, going.start)
        try:
            ended = carry_out(job, ready, console, _go_on(going), going.interruption)
        except DivergedError as error:
            say(console, str(error))
            return None
        for line in ended.scores:
            say(console, line)
        return ended.item_scores


def _go_on(going: _Search[ExampleT, EncodedT, AnswerT]) -> list[str]:
    return ["search", "--resume", str(going.job.directory)]
