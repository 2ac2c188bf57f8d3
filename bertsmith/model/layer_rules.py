"""A layer for those that do all of it in one function: weights, and what it does beside them.

Legend: H hidden size, F feed-forward size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from torch import Tensor

from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import Activation

NUM_MAPS, NUM_NORMS = 4, 2
"""To queries, keys and values, from contexts, up and down; behind attention, behind them."""
NUM_WEIGHTS = 2 * (NUM_MAPS + NUM_NORMS)
"""Weight and bias of each."""


@dataclass(frozen=True, kw_only=True)
class LayerRules:
    """How it attends, activates, drops and normalises."""

    number: int
    """Of the layer, from 0 on."""
    attention: AttentionRules
    activation: Activation
    probability: float
    """Of dropout, of what both sub-layers add."""
    epsilons: tuple[float, float]
    """Of both norms."""

    @staticmethod
    @lru_cache(maxsize=256)  # layers of some models
    def of(
        number: int,
        attention: AttentionRules,
        activation: Activation,
        probability: float,
        epsilons: tuple[float, float],
    ) -> LayerRules:
        """The same object for the same rules: every step of every layer asks for them."""
        return LayerRules(
            number=number,
            attention=attention,
            activation=activation,
            probability=probability,
            epsilons=epsilons,
        )


@dataclass(frozen=True, kw_only=True)
class LearningLayer:
    """What a layer computes with, where it learns: weights, and what is done beside them."""

    weights: Sequence[Tensor]
    """Weight and bias of the maps to queries, keys and values, (3H, H) and (3H,), from contexts,
    (H, H) and (H,), up, (F, H) and (F,), and down, (H, F) and (H,), then (H,) of both norms."""
    rules: LayerRules


def are_of_one_layer(weights: Sequence[Tensor]) -> bool:
    """Whether the shapes of weight and bias of all maps, then of both norms, fit each other."""
    shapes = _shapes(weights[-1].shape[0], weights[4].shape[0])
    return tuple(each.shape for each in weights) == shapes


@lru_cache(maxsize=16)  # of some models
def _shapes(width: int, inner: int) -> tuple[tuple[int, ...], ...]:
    """Of a layer's weights."""
    outputs_inputs = ((3 * width, width), (width, width), (inner, width), (width, inner))
    maps = [
        shape for outputs, inputs in outputs_inputs for shape in ((outputs, inputs), (outputs,))
    ]
    return (*maps, *[(width,)] * 2 * NUM_NORMS)
