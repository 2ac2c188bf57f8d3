"""A run while it trains: what is kept, evaluated and saved between two updates.

It holds what the second half of `pretrain` needs at hand. When each thing happens is decided in
`commands/pretrain.py`; how an update is made, in `train/loop.py`.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

import torch

from bertsmith.batch import PretrainBatch
from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.corpus.store import Corpus
from bertsmith.data.plan import Plan
from bertsmith.runs.damage import told_with_remedy
from bertsmith.runs.directory import Record, checkpoint_path, drop_old_checkpoints
from bertsmith.runs.evaluation import Evaluation, evaluate, held_out_batches
from bertsmith.runs.first_vectors import begin_with_first_vectors
from bertsmith.runs.pretrain_start import first_weights
from bertsmith.runs.progress import View
from bertsmith.runs.training import (
    Trainee,
    held_out_rules,
    phase_at,
    save_checkpoint,
    trainee,
)
from bertsmith.text.tokenizer import Tokenizer
from bertsmith.train.device import Processes
from bertsmith.train.log import Log, MetricsLog, TensorBoardLog, read_metrics
from bertsmith.train.loop import Step
from bertsmith.train.state import load_state

STUCK_MARGIN = 0.02  # of the unigram entropy
STUCK_AFTER = 0.25  # of the steps
STUCK_WINDOW = 100  # steps


@dataclass(kw_only=True)
class OngoingRun:
    """The parts of a run that is under way, in one process."""

    directory: Path
    record: Record
    processes: Processes
    parts: Trainee
    corpus: Corpus
    tokenizer: Tokenizer
    start: int
    """Updates that were finished when this process began."""
    logs: list[Log]
    """Where rows of metrics go; empty except in the first process."""
    began: float = field(default_factory=time.perf_counter)
    """When training began, for the rate; moved past evaluations and checkpoints."""
    latest: tuple[int, Evaluation | None] = (-1, None)
    """The step evaluated last, and what was found."""
    is_warned: bool = False
    """True once the warning of a stuck loss was given."""
    _tokens: int = 0
    _losses: deque[float] = field(default_factory=lambda: deque(maxlen=STUCK_WINDOW))
    _held_out: dict[int, list[PretrainBatch]] = field(default_factory=dict)

    @staticmethod
    def set_up(
        directory: Path, record: Record, processes: Processes, device: torch.device
    ) -> OngoingRun:
        """Builds the model and puts back the newest checkpoint, if there is one.

        Without one, the weights are those that the run begins with: drawn, counted from the text,
        or those of the model that it goes on from. Raises DamagedError for a damaged checkpoint.
        """
        corpus = Corpus.open(record.corpus)
        tokenizer = corpus.tokenizer()
        newest = newest_checkpoint(directory)
        is_of_model = newest is None and record.model
        parts = trainee(
            record.run, device, first_weights(record, tokenizer) if is_of_model else None
        )
        with told_with_remedy(newest):
            start = 0 if newest is None else load_state(newest, parts.optimizer).step
        if newest is None and record.run.count_embeddings:
            begin_with_first_vectors(directory, parts, corpus)
        metrics = directory / "metrics.jsonl"
        # Before a checkpoint nothing is behind, not even what was measured before the first step.
        kept = -1 if newest is None else start
        logs: list[Log] = [MetricsLog(metrics, resumed_step=kept)] if processes.is_first else []
        return OngoingRun(
            directory=directory,
            record=record,
            processes=processes,
            parts=parts,
            corpus=corpus,
            tokenizer=tokenizer,
            start=start,
            logs=logs,
        )

    def add_tensorboard(self) -> None:
        """Writes every row of metrics to TensorBoard too. Raises ValueError without the extra."""
        if self.processes.is_first:
            self.logs.append(
                TensorBoardLog(self.directory / "tensorboard", resumed_step=self.start)
            )

    def close(self) -> None:
        """Closes the logs."""
        for log in self.logs:
            log.close()

    def record_step(self, update: Step) -> View:
        """Writes a row of metrics, with the real tokens and seconds since the row before."""
        losses, accuracies = _means(update.sums)
        objective = self.parts.model.language_model
        assert objective is not None
        self._losses.append(losses[objective])
        self._tokens += update.tokens
        row: dict[str, int | float | str | bool | None] = {
            "step": update.number,
            "loss": update.loss,
            **{f"{name}_loss": value for name, value in losses.items()},
            **{f"{name}_accuracy": value for name, value in accuracies.items()},
            "learning_rate": update.learning_rate,
            "grad_norm": update.grad_norm,
            "tokens": self._tokens,
            "seconds": time.perf_counter() - self.began,
        }
        if update.skipped:
            row["skipped"] = True
        self._write(row)
        view = View(
            step=update.number,
            losses=losses,
            accuracies=accuracies,
            learning_rate=update.learning_rate,
            tokens=self._tokens,
            seconds=time.perf_counter() - self.began,
        )
        self._tokens, self.began = 0, time.perf_counter()
        return view

    def count_tokens(self, update: Step) -> None:
        """Counts an update that gets no row of its own."""
        self._tokens += update.tokens

    def evaluate_first(self) -> Evaluation | None:
        """The weights that the run begins with, on what the finished model will be evaluated on.

        None when no documents are held out, or steps were taken already.
        """
        batches = self._held_out_batches(self.record.run.num_steps)
        if self.start or not batches:
            return None
        evaluation = evaluate(self.parts.model, batches)
        self._write({"step": 0, **evaluation.row()})
        self.began = time.perf_counter()
        return evaluation

    def evaluate(self, step: int) -> Evaluation | None:
        """Evaluates on held-out documents, at the length of the phase; None when none are there."""
        began = time.perf_counter()
        evaluation = self._evaluated(step)
        if evaluation is not None:
            self._write({"step": step, **evaluation.row()})
        self.began += time.perf_counter() - began
        return evaluation

    def save(self, step: int) -> None:
        """Writes a checkpoint and deletes the oldest."""
        began = time.perf_counter()
        save_checkpoint(checkpoint_path(self.directory, step), self.parts, step, self.tokenizer)
        run = self.record.run
        drop_old_checkpoints(self.directory, run.keep_checkpoints, run.keep_every)
        self.began += time.perf_counter() - began

    def final_evaluation(self) -> Evaluation | None:
        """The finished model on the held-out documents, without a row of metrics."""
        return self._evaluated(self.record.run.num_steps)

    def training_seconds(self) -> float:
        """Seconds of all updates with a row, those before a resume included."""
        rows = read_metrics(self.directory / "metrics.jsonl")
        return sum(float(row.get("seconds") or 0.0) for row in rows)

    def stuck_warning(self, step: int) -> str | None:
        """A sentence, once, when the loss sits at the unigram line after a quarter of the steps.

        At the line: the mean of the losses recorded in the latest 100 steps that this process took
        is above 98% of the unigram entropy.
        """
        run, line = self.record.run, self.record.unigram_entropy
        num_rows = max(1, STUCK_WINDOW // run.record_every)
        latest = list(self._losses)[-num_rows:]
        if self.is_warned or step < STUCK_AFTER * run.num_steps or len(latest) < num_rows:
            return None
        mean = sum(latest) / num_rows
        if mean < (1.0 - STUCK_MARGIN) * line:
            return None
        self.is_warned = True
        return (
            f"after {step:,} of {run.num_steps:,} steps the loss ({mean:.3f}) still "
            f"sits at the unigram line ({line:.3f}): the model has learned how frequent tokens are "
            f"and nothing else. Try whether it can learn at all (--overfit-one-batch), another "
            f"peak rate (--optimizer.learning-rate), more steps, and look for repeated or shuffled "
            f"lines in the text"
        )

    def _evaluated(self, step: int) -> Evaluation | None:
        if self.latest[0] != step:
            batches = self._held_out_batches(step)
            self.latest = (step, evaluate(self.parts.model, batches) if batches else None)
        return self.latest[1]

    def _held_out_batches(self, step: int) -> list[PretrainBatch]:
        run, phase = self.record.run, phase_at(self.record.run, step)
        length = phase.sequence_length
        if length not in self._held_out:
            held_out = Corpus.open(self.record.corpus, "held_out")
            rules = held_out_rules(run, phase, held_out.num_documents)
            self._held_out[length] = (
                held_out_batches(Plan(held_out, rules), run.evaluate_sequences)
                if held_out.num_tokens > 0
                else []
            )
        return self._held_out[length]

    def _write(self, row: dict[str, int | float | str | bool | None]) -> None:
        for log in self.logs:
            log.write(row)


def _means(sums: dict[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    """Mean losses and accuracies by objective, from a step's sums."""
    names = [name.removesuffix("_count") for name in sums if name.endswith("_count")]
    counts = {name: max(1.0, sums[f"{name}_count"]) for name in names}
    return (
        {name: sums[f"{name}_loss_sum"] / counts[name] for name in names},
        {name: sums[f"{name}_correct"] / counts[name] for name in names},
    )
