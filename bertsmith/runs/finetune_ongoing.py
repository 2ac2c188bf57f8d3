"""A fine-tuning run while it trains: what is kept, evaluated and saved between two updates.

When each thing happens is decided in `commands/trained_run.py`; how an update is made, in
`train/loop.py`.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertsmith.batch import TaskBatch
from bertsmith.checkpoints.places import BEST, newest_checkpoint
from bertsmith.data.labelled import TaskPlan
from bertsmith.files import atomic_directory
from bertsmith.model.task_model import COUNT, LOSS_SUM, TaskModel
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.damage import told_with_remedy
from bertsmith.runs.directory import (
    checkpoint_path,
    copy_model,
    drop_old_checkpoints,
    holds_model,
)
from bertsmith.runs.finetuning import TaskCheckpoint, TaskTrainee
from bertsmith.runs.progress import View
from bertsmith.train.log import MetricsLog
from bertsmith.train.loop import Step
from bertsmith.train.state import TrainerState, load_state

Measure = Callable[[TaskModel], dict[str, float]]
"""A model -> its scores on Dev; the first one chooses."""


@dataclass(kw_only=True)
class DevProgress:
    """What the evaluations so far have decided; a checkpoint keeps it."""

    best_score: float | None = None
    """The highest first metric so far."""
    best_step: int = 0
    """The update after which it was reached."""
    num_worse: int = 0
    """Evaluations since then."""
    last_step: int = 0
    """The newest update that was saved."""
    is_finished: bool = False
    """Whether no update is to come."""

    def add(self, step: int, score: float) -> bool:
        """Takes a score in; True where it is the best so far."""
        is_best = self.best_score is None or score > self.best_score
        if is_best:
            self.best_score, self.best_step, self.num_worse = score, step, 0
        else:
            self.num_worse += 1
        return is_best


@dataclass(kw_only=True)
class OngoingFinetuning:
    """The parts of a run that is under way."""

    directory: Path
    run: FinetuneRun
    parts: TaskTrainee
    plan: TaskPlan
    keeper: TaskCheckpoint
    measure: Measure
    start: int
    """Updates that were finished when this process began."""
    progress: DevProgress
    log: MetricsLog
    newest_score: str = ""
    """What this process measured last on Dev, in words."""
    began: float = field(default_factory=time.perf_counter)
    """When training began, for the rate; moved past evaluations and checkpoints."""

    @staticmethod
    def set_up(
        directory: Path,
        run: FinetuneRun,
        parts: TaskTrainee,
        plan: TaskPlan,
        keeper: TaskCheckpoint,
        measure: Measure,
    ) -> OngoingFinetuning:
        """Puts back the newest checkpoint, if there is one, and the best model that it tells of."""
        newest = newest_checkpoint(directory)
        state = TrainerState(step=0, extra={})
        if newest is not None:
            with told_with_remedy(newest):
                state = load_state(newest, parts.optimizer)
        known: dict[str, Any] = state.extra
        ongoing = OngoingFinetuning(
            directory=directory,
            run=run,
            parts=parts,
            plan=plan,
            keeper=keeper,
            measure=measure,
            start=state.step,
            progress=DevProgress(**known),
            log=MetricsLog(directory / "metrics.jsonl", resumed_step=state.step),
        )
        if newest is not None and ongoing.is_best(state.step):
            ongoing._keep_best(newest)
        return ongoing

    @property
    def num_steps(self) -> int:
        """Updates of the whole run."""
        return self.plan.num_steps(self.run.epochs)

    @property
    def kept_step(self) -> int:
        """The update after which the run's model, so far, was as it is kept."""
        return self.progress.best_step if self.run.keep_best else self.progress.last_step

    def close(self) -> None:
        """Closes the log."""
        self.log.close()

    def batches(self) -> Iterator[TaskBatch]:
        """Every step's batch from where the run stands; none of a finished one."""
        if not self.progress.is_finished:
            yield from self.plan.steps(self.start, self.num_steps)

    def is_due(self, step: int, every: float) -> bool:
        """Whether a multiple of `every` epochs ends with this update, or the run does."""
        epochs = [self.plan.epochs(number) / every for number in (step - 1, step)]
        return step == self.num_steps or int(epochs[0] + _ROUNDING) < int(epochs[1] + _ROUNDING)

    def is_best(self, step: int) -> bool:
        """Whether the model after this update is the best so far on Dev, and to be kept."""
        return self.run.keep_best and self.progress.best_step == step

    def record_step(self, update: Step) -> View:
        """Writes a row of metrics."""
        seconds = time.perf_counter() - self.began
        loss = update.sums[LOSS_SUM] / max(1.0, update.sums[COUNT])
        row: dict[str, int | float | str | bool | None] = {
            "step": update.number,
            "loss": loss,
            "learning_rate": update.learning_rate,
            "grad_norm": update.grad_norm,
            "tokens": update.tokens,
            "seconds": seconds,
        }
        if update.skipped:
            row["skipped"] = True
        self.log.write(row)
        self.began = time.perf_counter()
        return View(
            step=update.number,
            losses={"loss": loss},
            accuracies={},
            learning_rate=update.learning_rate,
            tokens=update.tokens,
            seconds=seconds,
            score=self.newest_score,
        )

    def evaluate(self, step: int) -> str:
        """Measures the model on Dev; says in a line what it reaches, and the best so far."""
        began = time.perf_counter()
        scores = self.measure(self.parts.model)
        chooses, score = next(iter(scores.items()))
        is_best = self.progress.add(step, score)
        self.newest_score = f"Dev {chooses} {score:.4g}"
        named = {f"evaluation_{name}": value for name, value in scores.items()}
        self.log.write({"step": step, **named, "is_best": is_best})
        self.began += time.perf_counter() - began
        told = f"after epoch {self.plan.epochs(step):.3g}, step {step:,}: Dev {told_scores(scores)}"
        if is_best:
            return f"{told}, the best so far"
        best = f"{self.progress.best_score:.4g} of step {self.progress.best_step:,}"
        return f"{told}, the best is {best}"

    def decide_end(self, step: int) -> bool:
        """Whether this update was the last one: of the run, or because patience ends."""
        has_patience = not self.run.patience or self.progress.num_worse < self.run.patience
        self.progress.is_finished = step == self.num_steps or not has_patience
        return self.progress.is_finished

    def save(self, step: int) -> None:
        """Writes a checkpoint to go on from, keeps the best model, deletes the checkpoint before.

        The best model is a copy of its own checkpoint: so whoever goes on finds none in its place
        that the run has not reached.
        """
        began, path = time.perf_counter(), checkpoint_path(self.directory, step)
        self.progress.last_step = step
        state = TrainerState(step=step, extra=dataclasses.asdict(self.progress))
        self.keeper.write(path, self.parts, state)
        if self.is_best(step):
            self._keep_best(path)
        drop_old_checkpoints(self.directory, 1)
        self.began += time.perf_counter() - began

    def _keep_best(self, checkpoint: Path) -> None:
        if not holds_model(self.directory / BEST, checkpoint):
            with atomic_directory(self.directory / BEST) as best:
                copy_model(checkpoint, best)


def told_scores(scores: dict[str, float]) -> str:
    """`accuracy 0.6643, f1 0.71`."""
    return ", ".join(f"{name} {value:.4g}" for name, value in scores.items())


_ROUNDING = 1e-9  # a whole number of epochs is one, however the division was rounded
