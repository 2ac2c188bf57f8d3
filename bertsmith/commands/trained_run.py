"""A prepared fine-tuning run -> the same trained and scored, in its directory.

What both finetune and search do with a run. When things happen between two updates stands here, in
plain view: evaluations, checkpoints, the end.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from bertsmith.commands.finetune_outcome import Outcome, outcome
from bertsmith.commands.stages import Stage
from bertsmith.files import claimed, remove_leftovers
from bertsmith.fusion import unfused
from bertsmith.model.task_model import TaskModel
from bertsmith.runs import progress
from bertsmith.runs.divergence import require_finite, require_finite_scores
from bertsmith.runs.finetune_features import FrozenFeatures
from bertsmith.runs.finetune_job import Job, Prepared
from bertsmith.runs.finetune_measuring import FinetuneCost, measure_finetuning
from bertsmith.runs.finetune_ongoing import OngoingFinetuning
from bertsmith.runs.finetune_plan import num_values
from bertsmith.runs.finetune_record import write_finetune_record
from bertsmith.runs.finetuning import TaskCheckpoint, task_trainee
from bertsmith.runs.interruption import Interruption
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.runs.null_threshold import tuned_on_dev
from bertsmith.runs.progress import say
from bertsmith.train.loop import train

# Where torch.compile makes the kernels of training (`fusion`) it takes 25 s of a core and saves a
# quarter of a step: as much from about 250,000 tokens of Mini on, whose L * H is 1,024. Figures are
# in docs/log.md.
_VALUES_BEFORE_FUSING = 250_000 * 1024


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Keeps other processes from a run's directory, and clears away what a killed one left."""
    with claimed(directory):
        remove_leftovers(directory)
        remove_leftovers(directory / "checkpoints")
        yield


def say_plan(
    console: Console, lines: Sequence[tuple[str, str]], warnings: Sequence[str] = ()
) -> None:
    """Prints a plan: (what, value) in two columns."""
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        say(console, f"{name:<{width}}  {value}")
    for warning in warnings:
        say(console, f"warning: {warning}")


def say_how_to_go_on(console: Console, told: str, go_on: Sequence[str]) -> None:
    """Prints `told`, and the command that goes on."""
    say(console, f"{told}; to go on:")
    say(console, shlex.join(["bertsmith", *go_on]))


def measured(job: Job, ready: Prepared[ExampleT, EncodedT, AnswerT]) -> FinetuneCost:
    """What its steps cost on this machine, with the kernels that it will use."""
    run, plan, dev = ready.record.run, ready.plan, ready.dev.labelled
    with unfused(_is_short(ready)):
        return measure_finetuning(run, ready.model, plan, dev, job.device, ready.features)


def carry_out(
    job: Job,
    ready: Prepared[ExampleT, EncodedT, AnswerT],
    console: Console,
    go_on: Sequence[str],
    interruption: Interruption,
) -> Outcome:
    """Trains what is left of the run, and scores its model on Dev.

    Ctrl-C saves, says that the command `go_on` goes on, and raises KeyboardInterrupt; in the last
    step, or one that diverges, it leaves that to the caller, who looks at `interruption`.
    """
    record, dev, features = ready.record, ready.dev, ready.features
    write_finetune_record(job.directory, record)
    states = (None, None) if features is None else (features.train, features.dev)
    parts = task_trainee(record.run, ready.model, record.num_steps, job.device, states[0])

    def measured_on_dev(model: TaskModel) -> dict[str, float]:
        item_scores = dev.item_scores(model, states=states[1])
        require_finite_scores(item_scores, record.run.optimizer.learning_rate)
        answers, _ = tuned_on_dev(dev, dev.decoded(item_scores))
        return dev.scores(answers)

    ongoing = OngoingFinetuning.set_up(
        directory=job.directory,
        run=record.run,
        parts=parts,
        plan=ready.plan,
        keeper=TaskCheckpoint(tokenizer=ready.loaded.tokenizer, task=record.task),
        measure=measured_on_dev,
    )
    with contextlib.closing(ongoing):
        if features is not None and not ongoing.progress.is_finished:
            _fill_shown(features, parts.model, console, go_on)
        with unfused(_is_short(ready)):
            if not ongoing.progress.is_finished:
                _train_shown(ongoing, console, interruption)
    if not ongoing.progress.is_finished:
        say_how_to_go_on(console, "stopped and saved", go_on)
        raise KeyboardInterrupt
    if early := _told_early_end(ongoing):
        say(console, early)
    return outcome(job, ready, parts.precision, ongoing.kept_step, early)


def _told_early_end(ongoing: OngoingFinetuning) -> str:
    """That patience has ended the run; empty where it went to its last step."""
    last, num_worse = ongoing.progress.last_step, ongoing.progress.num_worse
    if last == ongoing.num_steps:
        return ""
    return (
        f"ended after step {last:,} of {ongoing.num_steps:,}: the last {num_worse} Dev scores were "
        f"no better than the best (--patience)"
    )


def _is_short(ready: Prepared[ExampleT, EncodedT, AnswerT]) -> bool:
    """Whether kernels cost more than they save.

    By the whole run, not by what is left of it: a resumed run must use the same ones.
    """
    values = num_values(ready.plan, ready.record.run.epochs, ready.model)
    return ready.features is not None or values < _VALUES_BEFORE_FUSING


def _fill_shown(
    features: FrozenFeatures, model: TaskModel, console: Console, go_on: Sequence[str]
) -> None:
    """Makes the hidden states that are missing, behind a bar; what is stopped begins anew."""
    if total := features.num_tokens_to_read():
        try:
            with Stage(console, "features", "tokens", total) as stage:
                features.fill(model, lambda share: stage.reach(int(share * total)))
        except KeyboardInterrupt:
            told = "stopped before the first step, no features are kept"
            say_how_to_go_on(console, told, go_on)
            raise


def _train_shown(ongoing: OngoingFinetuning, console: Console, interruption: Interruption) -> None:
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
        _train(ongoing, shown, interruption)


def _train(ongoing: OngoingFinetuning, shown: progress.Display, interruption: Interruption) -> None:
    """Takes every step that is left, or those until Ctrl-C; the last one is saved."""
    run, parts = ongoing.run, ongoing.parts
    with interruption:
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
            is_stopping = ongoing.decide_end(number) or interruption.requested
            if is_stopping or ongoing.is_due(number, run.save_every) or ongoing.is_best(number):
                ongoing.save(number)
            if is_stopping:
                return
