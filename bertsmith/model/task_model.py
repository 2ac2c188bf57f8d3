"""A task's batch -> its loss: the encoder, the head of the task, and what its scores should be.

It does not know how examples became sequences, nor what scores become.

Source: Devlin et al. 2018, section 4.

Legend: T tokens, N sequences, R scored rows, C labels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from bertsmith.batch import TaskBatch
from bertsmith.model import task_losses
from bertsmith.model.bert import Bert
from bertsmith.model.elementwise import widened
from bertsmith.model.heads import TaskHead
from bertsmith.model.objectives import Losses
from bertsmith.model.stream import Stream, builds_kernels_by_size, tensors

LOSS_SUM, COUNT = "task_loss_sum", "task_count"
"""The names of what a step adds up: the summed loss, and the answers it is the sum of."""


class TaskModel(nn.Module):
    """An encoder with the head that a task adds to it."""

    def __init__(self, bert: Bert, head: TaskHead) -> None:
        """Raises ValueError for a head that reads pooled vectors of a model without a pooler."""
        super().__init__()
        if bert.pooler is None and head.config.needs_pooler:
            raise ValueError(
                f"a head for {head.config.kind} reads the pooled vector, and the model holds no "
                f"pooler: give one that has it, or add a new one"
            )
        self.bert = bert
        self.head = head

    def forward(self, batch: TaskBatch, dropout: tuple[int, int] | None = None) -> Losses:
        """The loss of one micro-batch; `dropout` = (seed, step) switches dropout on."""
        stream, rows = self.laid_out(batch, dropout)
        return self.losses(self.head.logits(self.bert, stream, rows), batch)

    def laid_out(
        self, batch: TaskBatch, dropout: tuple[int, int] | None
    ) -> tuple[Stream, Tensor | None]:
        """The batch's stream and scored rows, on the device."""
        device = self.head.scores.weight.device
        stream = Stream.of(
            batch.packed,
            device=device,
            dropout=dropout,
            is_rounded=builds_kernels_by_size(self.head.scores.weight),
        )
        return stream, None if batch.rows is None else tensors((batch.rows,), device)[0]

    def losses(self, logits: Tensor, batch: TaskBatch) -> Losses:
        """The loss of a micro-batch of which these are the logits."""
        total = self._loss(widened(logits), batch)
        count = batch.num_groups if batch.rows is None else len(batch.rows)
        summed = total.detach()
        return Losses(
            loss=total / batch.step_targets,
            sums={LOSS_SUM: summed, COUNT: summed.new_full((), count)},
        )

    def _loss(self, logits: Tensor, batch: TaskBatch) -> Tensor:
        """The sum over the batch's answers."""
        config, device = self.head.config, logits.device
        if config.kind == "question_answering":
            return _span_loss(logits, batch)
        if config.kind == "multiple_choice":
            (groups,) = tensors((batch.groups,), device)
            right = _real(batch.targets, logits)
            return task_losses.choice_loss(logits, right, groups, batch.num_groups)
        if config.problem_type == "regression":
            return task_losses.regression_loss(logits, _real(batch.targets, logits))
        if config.problem_type == "multi_label_classification":
            return task_losses.labels_loss(logits, _real(batch.targets, logits))
        (labels,) = tensors((batch.targets.astype(np.int64),), device)
        return task_losses.label_loss(logits, labels)


def _span_loss(logits: Tensor, batch: TaskBatch) -> Tensor:
    """Targets are rows of each sequence; the loss wants rows of the stream."""
    lengths = batch.packed.lengths
    sequences = np.repeat(np.arange(len(lengths)), lengths)  # (T,)
    right = batch.targets.astype(np.int64) + np.repeat(
        batch.packed.starts, batch.targets_per_sequence
    )
    segments, rows = tensors((sequences, right), logits.device)
    return task_losses.span_loss(logits, rows, segments, len(lengths))


def _real(targets: npt.NDArray[np.number], logits: Tensor) -> Tensor:
    """Targets that are real numbers, as the logits are."""
    return torch.from_numpy(targets).to(logits)
