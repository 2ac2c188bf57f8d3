"""Hidden states of several layers -> one vector a token, by weights that are given or learned.

It does not know which layers these are.

Source: Peters et al. 2018, equation 1; Devlin et al. 2018, section 5.3 and Table 7 (the paper says
"weighted sum" and no more).

Legend: T tokens, H hidden size, S states.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from bertsmith.model.elementwise import widened


class LayerMix(nn.Module):
    """ELMo's sum: a softmax over one learned number a state, times one learned scale."""

    def __init__(self, num_states: int) -> None:
        """Begins as the mean of the states: numbers of zero, a scale of one."""
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(num_states))
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, states: Sequence[Tensor]) -> Tensor:
        """S states of (T, H) -> (T, H), in at least float32."""
        return weighted_sum(states, self.shares() * widened(self.scale))

    def shares(self) -> Tensor:
        """(S,): what is taken of each state before the scale; they sum to 1."""
        return torch.softmax(widened(self.weights), dim=0)


def weighted_sum(states: Sequence[Tensor], weights: Sequence[float] | Tensor) -> Tensor:
    """S states of (T, H) and S weights -> (T, H), added in at least float32."""
    total = widened(states[0]) * weights[0]
    for state, weight in zip(states[1:], weights[1:], strict=True):
        total = total + widened(state) * weight
    return total


def side_by_side(states: Sequence[Tensor]) -> Tensor:
    """S states of (T, H) -> (T, S * H), in at least float32."""
    return torch.cat([widened(state) for state in states], dim=-1)
