"""`bertsmith finetune`: a pre-trained BERT and labelled examples -> a model that answers.

    bertsmith finetune mini-en --glue GLUE --task RTE                  the paper's values
    bertsmith finetune mini-en --squad train.json --dev dev.json       answers out of passages
    bertsmith finetune mini-en --texts reviews.csv                     your own labelled texts
    bertsmith finetune mini-en --glue GLUE --task RTE --seed 1 --out runs/second
    bertsmith finetune --resume runs/mini-en-RTE                       goes on where it stopped

First everything that can be wrong is looked at, then the plan is printed, then it trains. A run
that was stopped goes on from its newest checkpoint, on a CPU to the bit. `fine_tune` does not know
where examples come from.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from pathlib import Path

from rich.console import Console

from bertsmith.commands.examples import learning_set, name_of, source_of
from bertsmith.commands.finetune_options import Finetune, defaults_of
from bertsmith.commands.finetune_outcome import outcome
from bertsmith.commands.stages import Stage
from bertsmith.files import claimed, remove_leftovers
from bertsmith.fusion import unfused
from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.finetuning import to_json
from bertsmith.runs import progress
from bertsmith.runs.directory import RECORD
from bertsmith.runs.divergence import require_finite
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetune_job import Job, Prepared, prepared, require_same_request
from bertsmith.runs.finetune_measuring import measure_finetuning
from bertsmith.runs.finetune_ongoing import OngoingFinetuning
from bertsmith.runs.finetune_plan import num_values
from bertsmith.runs.finetune_record import read_finetune_record, write_finetune_record
from bertsmith.runs.finetuning import TaskCheckpoint, task_trainee
from bertsmith.runs.interruption import Interruption
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet
from bertsmith.runs.machine import settle_machine
from bertsmith.runs.progress import say
from bertsmith.train.device import choose_device, choose_precision, processes_of_environment
from bertsmith.train.loop import train

__all__ = ["Finetune", "defaults_of", "fine_tune", "finetune"]

_BESIDE_RESUME = ("--resume", "--device", "--threads", "--plan-only")
"""Options that a resumed run takes; all others were settled when it began."""
# Compiling the kernels of training takes 25 s of a core and saves a quarter of a step: as much from
# about 250,000 tokens of Mini on, whose L * H is 1,024 (figures: docs/log.md).
_VALUES_BEFORE_FUSING = 250_000 * 1024


def finetune(options: Finetune) -> None:
    """Reads the examples that the options name, and fine-tunes on them.

    A finished run is not trained again, only scored. Ctrl-C saves, says how to go on, and raises
    KeyboardInterrupt.
    """
    if processes_of_environment().world_size > 1:
        raise ValueError("finetune runs in one process: start it without torchrun")
    directory, request = _asked(options)
    require_same_request(directory, request)
    is_begun = (directory / RECORD).is_file()
    record = read_finetune_record(directory) if is_begun else None
    run = options.run if record is None else record.run
    device = choose_device(
        settle_machine(options.device, options.threads, record.versions if record else {})
    )
    choose_precision(run.precision, device)
    source, max_tokens = request["examples"], request["max_tokens"]
    assert isinstance(source, dict)
    assert max_tokens is None or isinstance(max_tokens, int)
    job = Job(
        model=str(request["model"]),
        run=run,
        directory=directory,
        request=request,
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        device=device,
        features=Path(str(request["features"])) if "features" in request else None,
    )
    fine_tune(job, learning_set(source, max_tokens), Console(), plan_only=options.plan_only)


def fine_tune(
    job: Job,
    learning: LearningSet[ExampleT, EncodedT, AnswerT],
    console: Console,
    *,
    plan_only: bool = False,
) -> None:
    """Prints the plan, trains what is left of the run, and leaves a directory that answers."""
    with contextlib.ExitStack() as held:
        if not plan_only:
            held.enter_context(claimed(job.directory))
            remove_leftovers(job.directory)
            remove_leftovers(job.directory / "checkpoints")
        ready = prepared(job, learning)
        width = max(len(name) for name, _ in ready.lines)
        for name, value in ready.lines:
            say(console, f"{name:<{width}}  {value}")
        for warning in ready.warnings:
            say(console, f"warning: {warning}")
        if not ready.is_finished:
            say(console, "measuring real steps on this machine ...")
            say(console, f"{'expected':<{width}}  {_expected(job, ready)}")
        if not plan_only:
            write_finetune_record(job.directory, ready.record)
            _carry_out(job, ready, console)


def _asked(options: Finetune) -> tuple[Path, dict[str, object]]:
    """The run's directory, which need not be there, and what is asked for, as JSON values.

    Raises ValueError where a typed option would be passed over.
    """
    if options.resume is not None:
        told = [name for name in options.typed if name not in _BESIDE_RESUME]
        if told or options.model:
            beside = ", ".join([*filter(None, [options.model]), *told])
            raise ValueError(
                f"--resume takes everything from {options.resume}, {beside} included: leave it "
                f"out, or start a new run in another directory"
            )
        return options.resume, read_finetune_record(options.resume).request
    if not options.model:
        raise ValueError(
            "name a model (bertsmith finetune mini-en --glue DIR --task RTE), or a run to continue "
            "(bertsmith finetune --resume RUN)"
        )
    if options.features is not None and options.run.approach != "feature_based":
        raise ValueError(
            "--features keeps hidden states of --approach feature_based, and all weights are "
            "trained here: leave one out or take the other"
        )
    source = source_of(options.files, options.values)
    directory = options.out or Path("runs") / f"{Path(options.model).name}-{name_of(source)}"
    model = Path(options.model)
    return directory, {
        "model": str(model.resolve()) if model.exists() else options.model,
        "examples": source,
        "max_tokens": options.max_tokens,
        "run": json.loads(json.dumps(to_json(options.run))),
        **({"features": str(options.features.resolve())} if options.features else {}),
    }


def _expected(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT]) -> str:
    """What is left of the run will take, in words."""
    run, plan, dev = ready.record.run, ready.plan, ready.dev.labelled
    with unfused(_is_short(ready)):
        cost = measure_finetuning(run, ready.model, plan, dev, job.device, ready.features)
    return cost.told(cost.seconds(plan, run, dev, ready.state.step))


def _is_short(ready: Prepared[ExampleT, EncodedT, AnswerT]) -> bool:
    """Whether kernels cost more than they save.

    By the whole run, not by what is left of it: a resumed run must use the same ones.
    """
    values = num_values(ready.plan, ready.record.run.epochs, ready.model)
    return ready.features is not None or values < _VALUES_BEFORE_FUSING


def _carry_out(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT], console: Console) -> None:
    record, dev, features = ready.record, ready.dev, ready.features
    states = (None, None) if features is None else (features.train, features.dev)
    parts = task_trainee(record.run, ready.model, record.num_steps, job.device, states[0])
    ongoing = OngoingFinetuning.set_up(
        directory=job.directory,
        run=record.run,
        parts=parts,
        plan=ready.plan,
        keeper=TaskCheckpoint(tokenizer=ready.loaded.tokenizer, task=record.task),
        measure=lambda model: dev.scores(dev.answers(model, states=states[1])),
    )
    with contextlib.closing(ongoing):
        if features is not None and not ongoing.progress.is_finished:
            _fill_shown(job, features, parts.model, console)
        with unfused(_is_short(ready)):
            if not ongoing.progress.is_finished and not _train_shown(ongoing, console):
                _say_how_to_go_on(job, console, "stopped and saved")
                raise KeyboardInterrupt
    for line in outcome(job, ready, parts.precision, ongoing.kept_step):
        say(console, line)


def _say_how_to_go_on(job: Job, console: Console, told: str) -> None:
    say(console, f"{told}; to go on:")
    say(console, shlex.join(["bertsmith", "finetune", "--resume", str(job.directory)]))


def _fill_shown(job: Job, features: FrozenFeatures, model: TaskModel, console: Console) -> None:
    """Makes the hidden states that are missing, behind a bar; what is stopped begins anew."""
    if total := features.num_tokens_to_read():
        try:
            with Stage(console, "features", "tokens", total) as stage:
                features.fill(model, lambda share: stage.reach(int(share * total)))
        except KeyboardInterrupt:
            _say_how_to_go_on(job, console, "stopped before the first step, no features are kept")
            raise


def _train_shown(ongoing: OngoingFinetuning, console: Console) -> bool:
    """As `_train`, with the live line."""
    if ongoing.start:
        say(console, f"going on after step {ongoing.start:,} of {ongoing.num_steps:,}")
    with progress.display(
        console,
        num_steps=ongoing.num_steps,
        done=ongoing.start,
        unigram=None,
        every=ongoing.run.log_every,
    ) as shown:
        return _train(ongoing, shown)


def _train(ongoing: OngoingFinetuning, shown: progress.Display) -> bool:
    """Takes every step that is left; False when stopped by Ctrl-C, with the last step saved."""
    run, parts = ongoing.run, ongoing.parts
    with Interruption() as interruption:
        for update in train(
            parts.learner,
            parts.optimizer,
            parts.schedule,
            ongoing.batches(),
            accumulation=run.accumulation,
            start=ongoing.start,
        ):
            number = update.number
            require_finite(update, parts.optimizer, ongoing.directory, "--warmup-share")
            shown.step(ongoing.record_step(update))
            if ongoing.is_due(number, run.evaluate_every):
                shown.note(ongoing.evaluate(number))
            is_over = ongoing.decide_end(number)
            is_stopping = is_over or interruption.requested
            if is_stopping or ongoing.is_due(number, run.save_every):
                ongoing.save(number)
            if is_stopping:
                return is_over
    return True
