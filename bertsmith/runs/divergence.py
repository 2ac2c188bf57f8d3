"""An update, or scores -> nothing, or why the run cannot go on: what is no number any more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.checkpoints.places import newest_checkpoint
from bertsmith.train.loop import Step
from bertsmith.train.optimizer import Optimizer


class DivergedError(ValueError):
    """The loss or the gradient is no number any more; the last checkpoint is from before."""


def require_finite_scores(
    item_scores: Sequence[npt.NDArray[np.floating]], learning_rate: float
) -> None:
    """Raises DivergedError where what a model says of an item is no number.

    The last update of a run has no loss after it that would tell.
    """
    if not all(np.isfinite(each).all() for each in item_scores):
        raise DivergedError(
            f"the model's scores of the Dev examples are no numbers any more, so its weights are "
            f"lost: start anew in another directory (--out) with a lower peak rate "
            f"(--optimizer.learning-rate {learning_rate / 2:g}, now {learning_rate:g}), a longer "
            f"warm-up (--warmup-share) or --precision fp32"
        )


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
