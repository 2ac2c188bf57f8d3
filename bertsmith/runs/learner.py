"""A model with losses -> what the training loop calls: the same, its dropout keyed by the step.

It knows neither the objectives nor the batches.
"""

from __future__ import annotations

from torch import nn

from bertsmith.batch import PretrainBatch, TaskBatch
from bertsmith.model.objectives import Losses
from bertsmith.model.task_model import TaskModel
from bertsmith.tasks.scores import KeptStates


class Learner(nn.Module):
    """A `PretrainModel` on its batches, or a `TaskModel` on its own."""

    def __init__(self, model: nn.Module, *, seed: int, with_dropout: bool) -> None:
        super().__init__()
        self.model, self.seed, self.with_dropout = model, seed, with_dropout

    def forward(self, batch: PretrainBatch | TaskBatch, step: int) -> Losses:
        """The losses of one micro-batch, dropout drawn for (seed, step)."""
        losses: Losses = self.model(batch, (self.seed, step) if self.with_dropout else None)
        return losses


class FeatureLearner(nn.Module):
    """A task's head on hidden states that are kept, in place of an encoder that is not trained."""

    def __init__(
        self, model: TaskModel, states: KeptStates, *, seed: int, with_dropout: bool
    ) -> None:
        super().__init__()
        self.model, self.states = model, states
        self.seed, self.with_dropout = seed, with_dropout

    def forward(self, batch: TaskBatch, step: int) -> Losses:
        """The losses of one micro-batch; dropout falls on what the head's last layer reads."""
        bert, head = self.model.bert, self.model.head
        dropout = (self.seed, step) if self.with_dropout else None
        stream, rows = self.model.laid_out(batch, dropout)
        kept = self.states.read(batch.items, head.scores.weight.device)
        return self.model.losses(head.of_kept(bert, kept, stream, rows), batch)
