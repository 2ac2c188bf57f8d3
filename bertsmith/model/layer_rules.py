"""A layer for those that do all of it in one function: weights, and what it does beside them.

Legend: H hidden size, F feed-forward size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class LearningLayer:
    """What a layer computes with, where it learns: weights, and what is done beside them."""

    weights: Sequence[Tensor]
    """Weight and bias of the maps to queries, keys and values, (3H, H) and (3H,), from contexts,
    (H, H) and (H,), up, (F, H) and (F,), and down, (H, F) and (H,), then (H,) of both norms."""
    rules: LayerRules


def are_of_one_layer(weights: Sequence[Tensor]) -> bool:
    """Whether the shapes of weight and bias of all maps, then of both norms, fit each other."""
    width, inner = len(weights[-1]), len(weights[4])
    outputs_inputs = ((3 * width, width), (width, width), (inner, width), (width, inner))
    maps = [
        shape for outputs, inputs in outputs_inputs for shape in ((outputs, inputs), (outputs,))
    ]
    return [each.shape for each in weights] == [*maps, *[(width,)] * 2 * NUM_NORMS]
