"""`bertsmith pretrain`: a folder of text -> a pre-trained BERT, or a stopped run continued.

    bertsmith pretrain FOLDER                          everything chosen from text, time and machine
    bertsmith pretrain FOLDER --recipe paper-base      a recipe as it stands; any field beside it
    bertsmith pretrain --resume runs/FOLDER            goes on where it stopped, to the bit
    torchrun --nproc-per-node 8 -m bertsmith pretrain FOLDER --recipe paper-large

Two halves. The first reads text, decides (vocabulary, size, steps) and writes that into the run's
directory. The second trains from that directory alone: a resumed run is the second half again.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from bertsmith.commands.decision import Request, decide
from bertsmith.commands.plot import draw
from bertsmith.commands.preparation import TextChoices
from bertsmith.files import lock, remove_leftovers
from bertsmith.recipes.pretraining import RECIPES
from bertsmith.recipes.run import PretrainRun, stretched, to_json
from bertsmith.runs import progress, report
from bertsmith.runs.directory import (
    RECORD,
    changed_versions,
    check_corpus,
    reached,
    read_record,
    require_unfinished,
    write_record,
)
from bertsmith.runs.interruption import Interruption, agreed
from bertsmith.runs.ongoing import OngoingRun
from bertsmith.runs.training import batches_from
from bertsmith.train.device import Processes, choose_device, joined_processes, set_threads
from bertsmith.train.loop import Step, train

RecipeName = Literal["auto", "paper-base", "paper-large", "mini-cpu", "quickstart", "modern"]
SizeName = Literal["auto", "tiny", "mini", "small", "medium", "base", "large"]

DEFAULT_MINUTES = 60.0
_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(frozen=True, kw_only=True)
class Pretrain:
    """Makes a BERT from text; without a recipe, all is chosen from the text and --minutes."""

    texts: tyro.conf.Positional[tuple[Path, ...]] = ()
    """Folders or files of text, or one corpus that build-corpus made."""
    recipe: RecipeName = "auto"
    """Whose values the fields of the run start from; auto: mini-cpu, fitted to text and time."""
    minutes: float | None = None
    """Time to fit the number of steps to; default 60 for auto, else the recipe's own steps."""
    steps: int | None = None
    """Updates in all, instead of a time: phases and warm-up keep their shares."""
    size: SizeName = "auto"
    """The model's size by name; auto: the recipe's own, or chosen from text and time."""
    out: Path | None = None
    """The run's directory (default runs/NAME, by the first text's name)."""
    resume: Path | None = None
    """Continue the run in this directory; everything else comes from there."""
    plan_only: bool = False
    """Prepare the corpus, print the plan, and stop before training."""
    text: Annotated[TextChoices, tyro.conf.arg(name="")] = field(default_factory=TextChoices)
    """How text becomes a corpus."""
    device: str = "auto"
    """cpu, cuda, mps, or auto."""
    threads: int | None = None
    """CPU threads (default: PyTorch's own choice)."""
    tensorboard: bool = False
    """Also write TensorBoard event files."""
    run: Annotated[PretrainRun, tyro.conf.arg(name="")] = field(default_factory=RECIPES["mini-cpu"])
    """Every field of the run."""


def defaults_of(arguments: Sequence[str]) -> Pretrain:
    """The defaults for these arguments: those of the recipe that they name."""
    name = "auto"
    for place, argument in enumerate(arguments):
        if argument.startswith("--recipe="):
            name = argument.removeprefix("--recipe=")
        elif argument == "--recipe" and place + 1 < len(arguments):
            name = arguments[place + 1]
    # An unknown name gets some defaults here; tyro then reports it, with the choices.
    return Pretrain(run=RECIPES.get(name, RECIPES["mini-cpu"])())


def pretrain(options: Pretrain) -> None:
    """Prepares what is missing, trains to the end, and leaves a directory that explains itself.

    Ctrl-C saves, says how to go on, and raises KeyboardInterrupt.
    """
    set_threads(options.threads)
    directory = directory_of(options)
    with joined_processes(options.device) as processes, contextlib.ExitStack() as held:
        console = Console(quiet=not processes.is_first)
        if processes.is_first:
            held.enter_context(lock(directory / ".lock"))
            remove_leftovers(directory)
            remove_leftovers(directory / "checkpoints")
            if not _is_found(options, directory, console):
                record = decide(_request(options), directory, processes, console)
                if not options.plan_only:
                    write_record(directory, record)
        elif not options.plan_only:
            while not (directory / RECORD).is_file():  # the first process is preparing
                time.sleep(_SECONDS_BETWEEN_LOOKS)
        if not options.plan_only:
            _carry_out(options, directory, processes, console)


def directory_of(options: Pretrain) -> Path:
    """The run's directory. Raises ValueError when neither text nor run is named."""
    if options.resume is not None:
        read_record(options.resume)
        return options.resume
    if not options.texts:
        raise ValueError(
            "name a folder of text (bertsmith pretrain FOLDER), or a run to continue "
            "(bertsmith pretrain --resume RUN)"
        )
    return options.out or Path("runs") / options.texts[0].resolve().name


def _is_found(options: Pretrain, directory: Path, console: Console) -> bool:
    """True when the directory holds this very run, unfinished; says so."""
    if not (directory / RECORD).is_file():
        return False
    record = read_record(directory)
    require_unfinished(directory, record, None if options.resume else _request(options).asked)
    steps = f"{reached(directory):,} of {record.run.num_steps:,}"
    console.print(f"{directory} holds this run: going on after step {steps}", soft_wrap=True)
    for change in changed_versions(record):
        console.print(f"warning: {change} since it began; its bits may differ from now on")
    return True


def _request(options: Pretrain) -> Request:
    """What the options ask for: what was left at auto is chosen only where nothing else was set."""
    fitted = RECIPES["mini-cpu"]()
    is_auto, size, minutes = options.recipe == "auto", str(options.size), options.minutes
    run = options.run
    if options.steps is not None:
        if minutes is not None:
            raise ValueError("give --steps or --minutes, not both: each decides how long to train")
        run = stretched(run, options.steps)
    if size == "auto" and not (is_auto and run.model == fitted.model):
        size = "recipe"
    if minutes is None and is_auto and run.phases == fitted.phases:
        minutes = DEFAULT_MINUTES
    if minutes is None and size == "auto":
        size = "recipe"
    return Request(
        texts=options.texts,
        text=options.text,
        run=run,
        size=size,
        minutes=minutes,
        device=options.device,
        asked={
            "texts": [str(path.resolve()) for path in options.texts],
            "text": options.text.to_json(),
            "recipe": options.recipe,
            "size": size,
            "minutes": minutes,
            "run": json.loads(json.dumps(to_json(run))),
        },
    )


def _carry_out(options: Pretrain, directory: Path, processes: Processes, console: Console) -> None:
    """The second half: trains what the directory says, from its newest checkpoint on."""
    record = read_record(directory)
    check_corpus(record)
    device = choose_device(options.device, processes)
    ongoing = OngoingRun.set_up(directory, record, processes, device)
    with contextlib.closing(ongoing):
        if options.tensorboard:
            ongoing.add_tensorboard()
        with progress.display(
            console,
            num_steps=record.run.num_steps,
            done=ongoing.start,
            unigram=record.unigram_entropy,
            every=record.run.log_every,
        ) as shown:
            is_finished = _train(ongoing, shown)
        if processes.is_first and not is_finished:
            done = f"stopped after step {reached(directory):,}, saved; to go on:"
            go_on = f"bertsmith pretrain --resume {directory}"
            console.print(f"{done}\n{go_on}", highlight=False, soft_wrap=True)
            raise KeyboardInterrupt
        if processes.is_first:
            _explain(ongoing, console)


def _train(ongoing: OngoingRun, shown: progress.Display) -> bool:
    """Takes every step that is left; False when stopped by Ctrl-C, with the last step saved."""
    run, parts = ongoing.record.run, ongoing.parts
    batches = batches_from(run, ongoing.corpus, ongoing.start)
    with Interruption() as interruption, contextlib.closing(batches):
        for update in train(
            parts.learner,
            parts.optimizer,
            parts.schedule,
            batches,
            accumulation=run.accumulation,
            start=ongoing.start,
            processes=ongoing.processes,
        ):
            number, is_last = update.number, update.number == run.num_steps
            is_recorded = is_last or number % run.record_every == 0
            is_stopping = is_recorded and agreed(interruption.requested, ongoing.processes)
            if ongoing.processes.is_first:
                _between_updates(ongoing, shown, update, is_recorded, is_stopping)
            if is_stopping:
                return is_last
    return True


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
        console.print(line, markup=False, highlight=False, soft_wrap=True)
