"""`bertsmith finetune`: a pre-trained BERT and labelled examples -> a model that answers.

    bertsmith finetune mini-en --glue GLUE --task RTE                  the paper's values
    bertsmith finetune mini-en --squad train.json --dev dev.json       answers out of passages
    bertsmith finetune mini-en --texts reviews.csv                     your own labelled texts
    bertsmith finetune mini-en --glue GLUE --task RTE --seed 1 --out runs/second
    bertsmith finetune --resume runs/mini-en-RTE                       goes on where it stopped
    bertsmith finetune mini-en --texts reviews.csv --overfit-one-batch whether it can learn at all

First everything that can be wrong is looked at, then the plan is printed, then it trains. A run
that was stopped goes on from its newest checkpoint, on a CPU to the bit. `fine_tune` does not know
where examples come from.
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from bertsmith.commands.finetune_options import Finetune, defaults_of
from bertsmith.commands.finetune_request import (
    directory_for,
    features_of,
    learning_of,
    request_of,
    require_alone,
)
from bertsmith.commands.overfitting import tell_overfitting
from bertsmith.commands.paths import require_destination, require_no_others
from bertsmith.commands.trained_run import carry_out, held, measured, say_plan
from bertsmith.runs.directory import RECORD
from bertsmith.runs.finetune_job import Job, Prepared, prepared, require_same_request
from bertsmith.runs.finetune_record import read_finetune_record
from bertsmith.runs.interruption import Interruption
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.one_batch import overfit_finetuning
from bertsmith.runs.progress import say
from bertsmith.runs.room import finetuning_bytes, on_one_disk, require_room, told_room
from bertsmith.train.device import choose_device, choose_precision, processes_of_environment

_NO_RUN = "no-run-begins-here"

__all__ = ["Finetune", "defaults_of", "fine_tune", "finetune"]


def finetune(options: Finetune) -> None:
    """Reads the examples that the options name, and fine-tunes on them.

    A finished run is not trained again, only scored. Ctrl-C saves, says how to go on, and raises
    KeyboardInterrupt; in the last step it lets the run be finished and told first. A batch that
    cannot be overfitted, where that is asked, raises SystemExit.
    """
    if processes_of_environment().world_size > 1:
        raise ValueError("finetune runs in one process: start it without torchrun")
    directory, request = _asked(options)
    require_destination(directory, (), "the run's")
    require_no_others(directory, RECORD)
    require_same_request(directory, request)
    is_begun = (directory / RECORD).is_file()
    record = read_finetune_record(directory) if is_begun else None
    run = options.run if record is None else record.run
    device = choose_device(
        settle_machine(options.device, options.threads, record.versions if record else {})
    )
    if record is None:  # one that goes on may find it missing (`recorded_precision`)
        choose_precision(run.precision, device)
    job = Job(
        model=str(request["model"]),
        run=run,
        directory=directory,
        request=request,
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        device=device,
        features=features_of(request),
    )
    learning, console = learning_of(request), Console()
    if options.overfit_one_batch:
        # From the weights that a run begins with, also where one has begun.
        ready = prepared(replace(job, directory=directory / _NO_RUN), learning)
        say_plan(console, ready.lines, ready.warnings)
        tell_overfitting(lambda: overfit_finetuning(ready, device), console)
    else:
        fine_tune(job, learning, console, plan_only=options.plan_only)


def fine_tune(
    job: Job,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    console: Console,
    *,
    plan_only: bool = False,
) -> None:
    """Prints the plan, trains what is left of the run, and leaves a directory that answers.

    Raises KeyboardInterrupt as `finetune` does.
    """
    with contextlib.nullcontext() if plan_only else held(job.directory):
        ready = prepared(job, learning)
        size = _most_bytes(job, ready)
        disk = [] if ready.is_finished else [("disk", told_room(size, job.directory))]
        say_plan(console, [*ready.lines, *disk], ready.warnings)
        if not plan_only and not (job.directory / RECORD).is_file():
            require_room(size, job.directory, "the run's files")
        if not ready.is_finished:
            say(console, "measuring real steps on this machine ...")
            cost = measured(job, ready)
            left = cost.seconds(ready.plan, ready.record.run, ready.dev.labelled, ready.state.step)
            say_plan(console, [("expected", cost.told(left))])
        if not plan_only:
            interruption = Interruption()
            go_on = ["finetune", "--resume", str(job.directory)]
            ended = carry_out(job, ready, console, go_on, interruption)
            for line in (*ended.scores, *ended.details):
                say(console, line)
            if interruption.requested:
                raise KeyboardInterrupt


def _most_bytes(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT]) -> int:
    """That the run takes of its directory's disk, hidden states among them where they lie there."""
    size, features = finetuning_bytes(ready.model), ready.features
    if features is not None and on_one_disk(features.place, job.directory):
        size += features.num_missing_bytes()
    return size


def _asked(options: Finetune) -> tuple[Path, dict[str, object]]:
    """The run's directory, which need not be there, and what is asked for, as JSON values.

    Raises ValueError where a typed option would be passed over.
    """
    if options.resume is not None:
        require_alone(options)
        return options.resume, read_finetune_record(options.resume).request
    if not options.model:
        raise ValueError(
            "name a model (bertsmith finetune mini-en --glue DIR --task RTE), or a run to continue "
            "(bertsmith finetune --resume RUN)"
        )
    request = request_of(options)
    return options.out or directory_for(request), request
