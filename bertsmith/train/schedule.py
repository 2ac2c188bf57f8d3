"""A step number -> a share of the peak learning rate: linear warm-up, then linear decay.

A pure function: nothing is stored, so a resumed run needs only its step number. It knows no
optimizer and no peak rate; `train.loop` multiplies the two.

Source: google-research/bert optimization.py, create_optimizer.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ScheduleConfig:
    """Linear warm-up from 0, then linear decay to 0, over one run of any number of phases."""

    total_steps: int
    """Updates of the whole run, all phases together (paper: 1,000,000)."""
    warmup_steps: int | None = None
    """Updates of warm-up (paper: 10,000); give this or `warmup_share`."""
    warmup_share: float | None = None
    """Warm-up as a share of `total_steps`, rounded down (fine-tuning: 0.1)."""

    def __post_init__(self) -> None:
        """Refuses a schedule that does not say one thing."""
        if self.total_steps < 1:
            raise ValueError(f"total_steps must be at least 1, found {self.total_steps}")
        if (self.warmup_steps is None) == (self.warmup_share is None):
            raise ValueError(
                f"give exactly one of warmup_steps and warmup_share, found {self.warmup_steps} "
                f"and {self.warmup_share}"
            )
        if not 0 <= self.num_warmup_steps <= self.total_steps:
            raise ValueError(
                f"warm-up must end within the run: found {self.num_warmup_steps} warm-up steps, "
                f"expected 0 to total_steps = {self.total_steps}"
            )

    @property
    def num_warmup_steps(self) -> int:
        """Warm-up in updates, whichever way it was given."""
        if self.warmup_steps is not None:
            return self.warmup_steps
        return int(self.total_steps * (self.warmup_share or 0.0))

    def rate(self, finished: int) -> float:
        """The share of the peak learning rate for the update after `finished` finished updates.

        `finished / warmup` during warm-up, so the first update has rate 0 and changes only the
        moments; then `1 - finished / total`, measured from 0, so a small drop stands at the end of
        warm-up; 0 beyond the end.
        """
        if finished < 0:
            raise ValueError(f"finished updates must be at least 0, found {finished}")
        if finished < self.num_warmup_steps:
            return finished / self.num_warmup_steps
        return max(0.0, 1.0 - finished / self.total_steps)
