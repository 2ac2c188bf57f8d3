"""google-research/bert's optimizer, learning rate and first weights, restated plainly in float64.

It was written from the original and shares no code with the rest of the package.

Source: google-research/bert, optimization.py (create_optimizer, AdamWeightDecayOptimizer);
modeling.py, create_initializer (TensorFlow's truncated_normal_initializer).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

EXCLUDED_FROM_DECAY = ("LayerNorm", "layer_norm", "bias")
CUT = 2.0
"""Deviations at which the first weights' normal distribution is cut."""


class AdamWeightDecayOptimizer:
    """Adam without bias correction; decay is added to the update, not to the gradient."""

    def __init__(
        self,
        variables: Mapping[str, Array],
        *,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
    ) -> None:
        self.variables = {name: value.copy() for name, value in variables.items()}
        self._m = {name: np.zeros_like(value) for name, value in variables.items()}
        self._v = {name: np.zeros_like(value) for name, value in variables.items()}
        self._weight_decay_rate = weight_decay_rate
        self._beta_1, self._beta_2, self._epsilon = beta_1, beta_2, epsilon

    def apply_gradients(self, gradients: Mapping[str, Array], rate: float) -> None:
        """One update of every variable."""
        for name, gradient in gradients.items():
            self._m[name] = self._beta_1 * self._m[name] + (1.0 - self._beta_1) * gradient
            squared = gradient * gradient
            self._v[name] = self._beta_2 * self._v[name] + (1.0 - self._beta_2) * squared
            update = self._m[name] / (np.sqrt(self._v[name]) + self._epsilon)
            if not any(re.search(part, name) for part in EXCLUDED_FROM_DECAY):
                update = update + self._weight_decay_rate * self.variables[name]
            self.variables[name] = self.variables[name] - rate * update


def clip_by_global_norm(
    gradients: Mapping[str, Array], clip_norm: float = 1.0
) -> tuple[dict[str, Array], float]:
    """Gradients times clip / max(norm, clip), and the norm before: TensorFlow's rule."""
    norm = math.sqrt(sum(float((gradient**2).sum()) for gradient in gradients.values()))
    factor = clip_norm / max(norm, clip_norm)
    return {name: gradient * factor for name, gradient in gradients.items()}, norm


def learning_rate(
    init_lr: float, num_train_steps: int, num_warmup_steps: int, global_step: int
) -> float:
    """The rate of the update after `global_step` finished ones."""
    if num_warmup_steps and global_step < num_warmup_steps:
        return init_lr * (global_step / num_warmup_steps)
    step = min(global_step, num_train_steps)
    return init_lr * (1.0 - step / num_train_steps)


def truncated_normal_cdf(values: Iterable[float], stddev: float) -> list[float]:
    """The distribution function of a normal that is drawn again beyond two deviations."""
    inside = _phi(CUT) - _phi(-CUT)
    return [(_phi(value / stddev) - _phi(-CUT)) / inside for value in values]


def truncated_normal_deviation(stddev: float) -> float:
    """The standard deviation that is left after the cut: 0.88 of `stddev`."""
    density = math.exp(-CUT * CUT / 2.0) / math.sqrt(2.0 * math.pi)
    inside = _phi(CUT) - _phi(-CUT)
    return stddev * math.sqrt(1.0 - 2.0 * CUT * density / inside)


def _phi(value: float) -> float:
    return 0.5 * math.erfc(-value / math.sqrt(2.0))
