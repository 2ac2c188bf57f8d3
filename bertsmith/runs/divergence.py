"""An update -> nothing, or why the run cannot go on: a loss or a gradient that is no number."""

from __future__ import annotations

import math
from pathlib import Path

from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.train.loop import Step
from bertsmith.train.optimizer import Optimizer


class DivergedError(ValueError):
    """The loss or the gradient is no number any more; the last checkpoint is from before."""


def require_finite(update: Step, optimizer: Optimizer, directory: Path, warmup: str) -> None:
    """Raises DivergedError when the update's loss or gradient is no number.

    float16 may overflow and skip a step; that is no harm until no loss scale is left to try.
    `directory` is the run's, `warmup` the option that makes its warm-up longer.
    """
    scaler = optimizer.scaler
    if update.skipped and scaler is not None and scaler.scale >= 1.0:
        return
    if math.isfinite(update.loss) and math.isfinite(update.grad_norm):
        return
    good = newest_checkpoint(directory)
    kept = "there is no checkpoint yet" if good is None else f"the last good checkpoint is {good}"
    rate = optimizer.config.learning_rate
    raise DivergedError(
        f"step {update.number:,}: the loss is {update.loss:g} and the norm of the gradient "
        f"{update.grad_norm:g}, so the weights are lost and nothing was saved; {kept}. Going "
        f"on from there would end here again: start anew in another directory (--out) with a "
        f"lower peak rate (--optimizer.learning-rate {rate / 2:g}, now {rate:g}), a longer "
        f"warm-up ({warmup}) or --precision fp32"
    )
