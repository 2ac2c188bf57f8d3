"""Overflowing gradients -> the factor that float16 losses are multiplied by before backward.

float16 gradients vanish below 6e-8 and overflow above 65,504; a scaled loss keeps them between the
two. Only float16 needs it: bfloat16 has the range of float32.

Source: Micikevicius et al. 2018 (mixed precision training), section 3.2; the numbers are those of
torch.amp.GradScaler.
"""

from __future__ import annotations

from dataclasses import dataclass

GROWTH_INTERVAL = 2000


@dataclass
class LossScaler:
    """The current scale: halved when gradients overflow, doubled after 2000 clean steps."""

    scale: float = 65_536.0
    """What the loss is multiplied by, and the gradients are divided by."""
    clean_steps: int = 0
    """Updates since the last overflow or growth."""

    def update(self, *, overflowed: bool) -> None:
        """Learns from one step whether the scale was too large."""
        if overflowed:
            self.scale, self.clean_steps = self.scale / 2, 0
        elif self.clean_steps + 1 == GROWTH_INTERVAL:
            self.scale, self.clean_steps = self.scale * 2, 0
        else:
            self.clean_steps += 1
