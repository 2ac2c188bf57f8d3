"""A model with losses -> what the training loop calls: the same, its dropout keyed by the step.

It knows neither the objectives nor the batches.
"""

from __future__ import annotations

from torch import nn

from bertsmith.batch import PretrainBatch, TaskBatch
from bertsmith.model.objectives import Losses


class Learner(nn.Module):
    """A `PretrainModel` on its batches, or a `TaskModel` on its own."""

    def __init__(self, model: nn.Module, *, seed: int, with_dropout: bool) -> None:
        super().__init__()
        self.model, self.seed, self.with_dropout = model, seed, with_dropout

    def forward(self, batch: PretrainBatch | TaskBatch, step: int) -> Losses:
        """The losses of one micro-batch, dropout drawn for (seed, step)."""
        losses: Losses = self.model(batch, (self.seed, step) if self.with_dropout else None)
        return losses
