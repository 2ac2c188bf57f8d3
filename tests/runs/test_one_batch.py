"""Overfitting one batch: what is learned by heart, what cannot be, and what is told of it."""

from __future__ import annotations

import math

import pytest
from torch import Tensor, nn

from bertsmith.model.objectives import Losses
from bertsmith.runs.one_batch import KNOWN_BY_HEART, MOST_UPDATES, Overfitting, overfit
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.optimizer import Optimizer


class _Numbers:
    """A batch of targets for one weight."""

    def __init__(self, *targets: float) -> None:
        self.targets = targets

    @property
    def num_tokens(self) -> int:
        return len(self.targets)

    def split(self, parts: int) -> list[_Numbers]:
        assert parts == 1
        return [self]


class _OneWeight(nn.Module):
    """The mean square of a weight's distances from the targets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(1, 1, bias=False)

    def forward(self, batch: _Numbers, step: int) -> Losses:
        total: Tensor = sum((self.weight.weight - each).square().sum() for each in batch.targets)  # type: ignore[assignment]
        return Losses(loss=total / len(batch.targets), sums={"loss_sum": total.detach()})


def _overfitted(*targets: float, rate: float = 0.1) -> Overfitting:
    learner = _OneWeight()
    nn.init.zeros_(learner.weight.weight)
    optimizer = Optimizer(
        learner.named_parameters(), OptimizerConfig(learning_rate=rate, weight_decay=0.0)
    )
    return overfit(learner, optimizer, _Numbers(*targets))


def test_it_ends_as_soon_as_the_batch_is_known_by_heart() -> None:
    found = _overfitted(2.0, 2.0)
    assert found.is_learned
    assert found.losses[0] == 4.0
    assert found.losses[-1] <= KNOWN_BY_HEART < min(found.losses[:-1])
    assert len(found.losses) < MOST_UPDATES
    assert "learned by heart, so model, data and optimizer can learn" in found.told()
    assert "loss 4.000 before" in found.told()


def test_what_was_known_before_is_told_as_such() -> None:
    found = _overfitted(0.1)
    assert len(found.losses) == 1
    assert "known before any update" in found.told()


def test_examples_that_contradict_each_other_are_not_learned() -> None:
    found = _overfitted(-1.0, 1.0)
    assert not found.is_learned
    assert len(found.losses) == MOST_UPDATES + 1
    assert "NOT learned by heart" in found.told()
    assert f"after {MOST_UPDATES} updates" in found.told()


def test_a_rate_of_nothing_learns_nothing() -> None:
    assert not _overfitted(2.0, rate=1e-9).is_learned


@pytest.mark.parametrize("loss", [math.inf, math.nan])
def test_divergence_ends_it_and_is_told(loss: float) -> None:
    found = Overfitting(losses=(1.0, loss), learning_rate=10.0)
    assert not found.is_learned
    assert "it diverges; try a lower rate" in found.told()


def test_what_is_no_number_is_not_learned_from_again() -> None:
    found = _overfitted(math.inf)
    assert len(found.losses) == 1
    assert not found.is_learned
