"""`bertsmith pretrain`: a folder of text -> a pre-trained BERT, or a stopped run continued.

    bertsmith pretrain FOLDER                          everything chosen from text, time and machine
    bertsmith pretrain FOLDER --from MODEL             goes on from any BERT, on one's own text
    bertsmith pretrain FOLDER --recipe paper-base      a recipe as it stands; any field beside it
    bertsmith pretrain --resume runs/FOLDER            goes on where it stopped, to the bit
    bertsmith pretrain FOLDER --overfit-one-batch      whether it can learn at all
    torchrun --nproc-per-node 8 -m bertsmith pretrain FOLDER --recipe paper-large

Two halves. The first reads text, decides (vocabulary, size, steps) and writes that into the run's
directory. The second trains from that directory alone: a resumed run is the second half again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

import torch
from rich.console import Console

from bertsmith.commands.beginning import begin, take_up
from bertsmith.commands.overfitting import tell_overfitting
from bertsmith.commands.paths import require_destination, require_no_others, require_text
from bertsmith.commands.plot import draw
from bertsmith.commands.preparation import is_corpus
from bertsmith.commands.pretrain_options import Pretrain, defaults_of
from bertsmith.commands.request import request_of, require_effective
from bertsmith.commands.typed import require_there
from bertsmith.files import claimed, remove_leftovers
from bertsmith.fusion import unfused
from bertsmith.runs import progress, report
from bertsmith.runs.checks import check_machine
from bertsmith.runs.directory import (
    RECORD,
    check_corpus,
    reached,
    read_record,
)
from bertsmith.runs.divergence import require_finite
from bertsmith.runs.interruption import Interruption, agreed
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.one_batch import overfit_pretraining
from bertsmith.runs.ongoing import OngoingRun
from bertsmith.runs.progress import say
from bertsmith.runs.together import command_line, require_shared_disk, wait_for
from bertsmith.runs.training import batches_from, begin_phase
from bertsmith.train.device import Processes, joined_processes
from bertsmith.train.log import require_tensorboard
from bertsmith.train.loop import Step, train

__all__ = ["Pretrain", "defaults_of", "directory_of", "pretrain"]


def pretrain(options: Pretrain, interruption: Interruption | None = None) -> None:
    """Prepares what is missing, trains to the end, and leaves a directory that explains itself.

    A finished run is not trained again, only explained. Ctrl-C saves, says how to go on, and raises
    KeyboardInterrupt; in the last step it lets the run be finished and explained first. A batch
    that cannot be overfitted, where that is asked, raises SystemExit. Whoever would go on after an
    error looks at `interruption` first: Ctrl-C may have come before it.
    """
    directory = directory_of(options)
    request = None if options.resume else request_of(options)
    keeps_nothing = options.plan_only or options.overfit_one_batch
    device_name = _settle_machine(options, directory)
    with joined_processes(device_name) as processes, contextlib.ExitStack() as held:
        run = read_record(directory).run if request is None else request.run
        device = check_machine(run, device_name, processes, goes_on=request is None)
        if options.overfit_one_batch and processes.world_size > 1:
            raise ValueError("--overfit-one-batch runs in one process: start it without torchrun")
        console = Console(quiet=not processes.is_first)
        if processes.is_first:
            held.enter_context(claimed(directory))
        require_shared_disk(directory, processes)
        if processes.is_first:
            remove_leftovers(directory)
            remove_leftovers(directory / "checkpoints")
            if (directory / RECORD).is_file():
                record = take_up(directory, request, device, processes, console)
            elif request is not None:
                record = begin(request, directory, device, processes, console, keeps_nothing)
            if options.overfit_one_batch:
                check_corpus(record)
                tell_overfitting(lambda: overfit_pretraining(record, device), console)
        elif not keeps_nothing:
            wait_for(directory / RECORD)
        if not keeps_nothing:
            asked = interruption or Interruption(is_told=processes.is_first)
            _carry_out(options, directory, processes, device, console, asked)


def directory_of(options: Pretrain) -> Path:
    """The run's directory, which need not be there.

    Raises FileNotFoundError for text that is not there, ValueError for options without an effect
    and for a directory that cannot be the run's.
    """
    require_effective(options)
    if options.resume is not None:
        read_record(options.resume)
        return options.resume
    if not options.texts:
        raise ValueError(
            "name a folder of text (bertsmith pretrain FOLDER), or a run to continue "
            "(bertsmith pretrain --resume RUN)"
        )
    require_there(options.texts)
    directory = options.out or Path("runs") / _name_of(options)
    texts = () if is_corpus(options.texts) else options.texts
    require_destination(directory, texts, "the run's")
    require_no_others(directory, RECORD)
    require_text(texts, "name text alone, or one corpus alone")
    return directory


def _name_of(options: Pretrain) -> str:
    text = options.texts[0].resolve().name
    return text if options.from_model is None else f"{Path(options.from_model).name}-{text}"


def _settle_machine(options: Pretrain, directory: Path) -> str:
    """Sets the threads and names the device: as given, else as the run in the directory began."""
    if options.tensorboard:
        require_tensorboard()
    began = read_record(directory).versions if (directory / RECORD).is_file() else {}
    return settle_machine(options.device, options.threads, began)


def _carry_out(
    options: Pretrain,
    directory: Path,
    processes: Processes,
    device: torch.device,
    console: Console,
    interruption: Interruption,
) -> None:
    """The second half: trains what the directory says, from its newest checkpoint on."""
    record = read_record(directory)
    check_corpus(record)
    ongoing = OngoingRun.set_up(directory, record, processes, device)
    # What is left of a finished run ends before kernels are compiled.
    with contextlib.closing(ongoing), unfused(ongoing.start == record.run.num_steps):
        if options.tensorboard:
            ongoing.add_tensorboard()
        with progress.display(
            console,
            num_steps=record.run.num_steps,
            done=ongoing.start,
            unigram=record.unigram_entropy,
            every=record.run.log_every,
        ) as shown:
            is_asked = _train(ongoing, shown, interruption)
        if not processes.is_first:
            return
        if reached(directory) == record.run.num_steps:
            _explain(ongoing, console)
        else:
            done = f"stopped after step {reached(directory):,}, saved; to go on:"
            go_on = command_line(["pretrain", "--resume", str(directory)], processes)
            say(console, f"{done}\n{go_on}")
        if is_asked:
            raise KeyboardInterrupt


def _train(ongoing: OngoingRun, shown: progress.Display, interruption: Interruption) -> bool:
    """Takes the steps that are left, or those until Ctrl-C; True after Ctrl-C, all being saved."""
    run, parts = ongoing.record.run, ongoing.parts
    batches = batches_from(run, ongoing.corpus, ongoing.start)
    if ongoing.record.model and ongoing.processes.is_first:
        before = ongoing.evaluate_first()
        if before is not None:
            shown.note(f"before the first step  {before.sentence()}")
    with interruption, contextlib.closing(batches):
        begin_phase(run, ongoing.start, parts)
        for update in train(
            parts.learner,
            parts.optimizer,
            parts.schedule,
            batches,
            accumulation=run.accumulation,
            start=ongoing.start,
            processes=ongoing.processes,
        ):
            number = update.number
            is_recorded = number == run.num_steps or number % run.record_every == 0
            is_stopping = is_recorded and agreed(interruption.requested, ongoing.processes)
            if is_recorded or number % run.save_every == 0:
                require_finite(update, parts.optimizer, ongoing.directory, "--warmup-steps")
            if ongoing.processes.is_first:
                _between_updates(ongoing, shown, update, is_recorded, is_stopping)
            if is_stopping:
                return True
            begin_phase(run, number, parts)
    return interruption.requested  # while the last weights were evaluated or saved


def _between_updates(
    ongoing: OngoingRun, shown: progress.Display, update: Step, is_recorded: bool, is_stopping: bool
) -> None:
    """Records, shows, evaluates, saves: in the first process, after every update."""
    run, number = ongoing.record.run, update.number
    is_last = number == run.num_steps
    if is_recorded:
        shown.step(ongoing.record_step(update))
    else:
        ongoing.count_tokens(update)
    if is_last or number % run.evaluate_every == 0:
        evaluation = ongoing.evaluate(number)
        if evaluation is not None:
            shown.note(f"step {number:,}  {evaluation.sentence()}")
    if warning := ongoing.stuck_warning(number):
        shown.note(f"warning: {warning}")
    if is_last or is_stopping or number % run.save_every == 0:
        ongoing.save(number)


def _explain(ongoing: OngoingRun, console: Console) -> None:
    """Picture, samples, README, and what to type next."""
    draw([ongoing.directory], ongoing.directory / "curves.png")
    lines = report.explain(
        ongoing.directory, ongoing.record, ongoing.final_evaluation(), ongoing.training_seconds()
    )
    for line in lines:
        say(console, line)
