"""A learner and one batch -> whether it can be overfitted, the first thing to try of a stuck loss.

What cannot learn a handful of examples by heart, without dropout, will not learn from many: a rate,
a label or an objective is wrong. A throw-away model learns; nothing of it is kept. What can be
overfitted may still learn nothing that holds elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import torch
from torch import nn

from bertsmith.corpus.store import Corpus
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.directory import Record
from bertsmith.runs.finetune_job import Prepared
from bertsmith.runs.finetuning import task_trainee
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT
from bertsmith.runs.pretrain_start import first_weights
from bertsmith.runs.training import plan_of, trainee
from bertsmith.train.loop import Batch, train
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.schedule import ScheduleConfig

NUM_EXAMPLES = 8
"""Sequences or examples of the batch, at most."""
MOST_UPDATES = 400
KNOWN_BY_HEART = 0.1
"""The loss, in nats or squared points, of what is known by heart."""
_WARMUP = 20


@dataclass(frozen=True, kw_only=True)
class Overfitting:
    """What came of it."""

    losses: Sequence[float]
    """Of the whole batch, before each update."""
    learning_rate: float
    """The peak, which is the run's."""

    @property
    def is_learned(self) -> bool:
        """Whether the batch is known by heart."""
        return self.losses[-1] <= KNOWN_BY_HEART

    def told(self) -> str:
        """The verdict in a sentence."""
        if len(self.losses) == 1 and self.is_learned:
            return (
                f"one batch of at most {NUM_EXAMPLES} is known before any update (loss "
                f"{self.losses[0]:.3f}), which says nothing of whether it can be learned"
            )
        went = (
            f"one batch of at most {NUM_EXAMPLES}, learned again and again at a peak rate of "
            f"{self.learning_rate:g} without dropout: loss {self.losses[0]:.3f} before, "
            f"{self.losses[-1]:.3f} after {len(self.losses) - 1} updates"
        )
        if self.is_learned:
            return f"{went}: learned by heart, so model, data and optimizer can learn"
        if not math.isfinite(self.losses[-1]):
            return f"{went}: it diverges; try a lower rate (--optimizer.learning-rate)"
        return (
            f"{went}: NOT learned by heart. Try a higher rate (--optimizer.learning-rate); if that "
            f"changes nothing, the examples contradict each other, what is to be learned cannot be "
            f"seen in them, or numbers to be learned lie far from 0"
        )


def overfit(learner: nn.Module, optimizer: Optimizer, batch: Batch) -> Overfitting:
    """Takes updates on the same batch until it is known by heart, at most `MOST_UPDATES`.

    The rate rises over twenty updates and falls by half to the last one. The model is changed.
    """
    schedule = ScheduleConfig(total_steps=2 * MOST_UPDATES, warmup_steps=_WARMUP)
    losses: list[float] = []
    for update in train(learner, optimizer, schedule, repeat(batch, MOST_UPDATES + 1)):
        losses.append(update.loss)
        if not KNOWN_BY_HEART < update.loss < math.inf:
            break
    return Overfitting(losses=losses, learning_rate=optimizer.config.learning_rate)


def overfit_pretraining(record: Record, device: torch.device) -> Overfitting:
    """Overfits the first sequences of the run's first phase, from the weights that it begins with.

    Embeddings that the run would begin with as counted ones are drawn here.
    """
    corpus = Corpus.open(record.corpus)
    first = first_weights(record, corpus.tokenizer()) if record.model else None
    run = _small(record.run)
    parts = trainee(run, device, first)
    return overfit(parts.learner, parts.optimizer, plan_of(run, 0, corpus).step(0))


def overfit_finetuning(
    ready: Prepared[ExampleT, EncodedT, AnswerT], device: torch.device
) -> Overfitting:
    """Overfits the first examples of a run that has not begun; its model is used up by it."""
    assert ready.features is None, "a head alone would read hidden states that are not there yet"
    run: FinetuneRun = replace(ready.record.run, dropout=False)
    parts = task_trainee(run, ready.model, MOST_UPDATES, device)
    few = min(NUM_EXAMPLES, ready.plan.batch_size)
    return overfit(parts.learner, parts.optimizer, replace(ready.plan, batch_size=few).step(0))


def _small(run: PretrainRun) -> PretrainRun:
    """The run with a few sequences a step, and without dropout."""
    few = min(NUM_EXAMPLES, run.phases[0].batch_size)
    phases = (replace(run.phases[0], batch_size=few), *run.phases[1:])
    return replace(run, phases=phases, dropout=False, accumulation=1)
