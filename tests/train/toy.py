"""A learner with real shapes of trouble: sums over the step's counts, uneven parts, mixed types."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class ToyBatch:
    """Rows with targets; the loss is the mean over the whole step's rows."""

    rows: Tensor
    targets: Tensor
    step_rows: int

    @property
    def num_tokens(self) -> int:
        return len(self.rows)

    def split(self, parts: int) -> list["ToyBatch"]:
        rows, targets = self.rows.tensor_split(parts), self.targets.tensor_split(parts)
        return [ToyBatch(r, t, self.step_rows) for r, t in zip(rows, targets, strict=True)]


@dataclass(frozen=True)
class ToyLosses:
    loss: Tensor
    sums: dict[str, Tensor]


class ToyLearner(nn.Module):
    """Embedding, norm and two linear layers; the step's number shifts the input like dropout."""

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 8)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Linear(8, 5)
        self.table.to(dtype)
        self.out.to(dtype)
        self.norm.to(torch.promote_types(dtype, torch.float32))

    def forward(self, batch: ToyBatch, step: int) -> ToyLosses:
        hidden = self.norm(self.table(batch.rows).to(self.norm.weight.dtype) + 0.01 * step)
        logits = self.out(hidden.to(self.out.weight.dtype)).to(self.norm.weight.dtype)
        loss_sum = nn.functional.cross_entropy(logits, batch.targets, reduction="sum")
        correct = (logits.argmax(-1) == batch.targets).sum()
        count = torch.tensor(len(batch.targets))
        sums = {"loss_sum": loss_sum, "correct": correct, "count": count}
        return ToyLosses(loss_sum / batch.step_rows, sums)


def toy_batches(start: int, stop: int) -> Iterator[ToyBatch]:
    for step in range(start, stop):
        generator = torch.Generator().manual_seed(step)
        rows = torch.randint(20, (30 + step % 3,), generator=generator)
        yield ToyBatch(rows, (rows * 7 + 3) % 5, len(rows))
