"""How self-attention attends, for all that compute it; it knows no computation.

Legend: A heads.
"""

from __future__ import annotations

from dataclasses import dataclass

from bertsmith.model.config import Direction

DIRECTION_NUMBERS: dict[Direction, int] = {
    "bidirectional": 0,
    "left_to_right": 1,
    "right_to_left": 2,
}
"""How kernels are told the direction."""


@dataclass(frozen=True, kw_only=True)
class AttentionRules:
    """What attention needs beside its inputs."""

    num_heads: int
    """A."""
    direction: Direction
    """Which keys a query may see."""
    probability: float
    """Dropout on the attention probabilities."""
