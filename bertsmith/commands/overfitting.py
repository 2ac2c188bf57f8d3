"""`--overfit-one-batch` of pretrain and finetune: what came of it, told, and the exit status."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from bertsmith.fusion import unfused
from bertsmith.runs.one_batch import Overfitting
from bertsmith.runs.progress import say

EXIT_NOT_LEARNED = 1


def require_no_plan_only(plan_only: bool, overfit_one_batch: bool) -> None:
    """Raises ValueError where both options are set."""
    if plan_only and overfit_one_batch:
        raise ValueError("--overfit-one-batch prints the plan too: leave --plan-only out")


def tell_overfitting(overfit: Callable[[], Overfitting], console: Console) -> None:
    """Overfits and says what came of it. Raises SystemExit(1) where nothing was learned by heart.

    Kernels are not compiled for it: that takes longer than what they save of it.
    """
    say(console, "learning one batch by heart, from the weights that a run begins with ...")
    with unfused():
        found = overfit()
    say(console, found.told())
    if not found.is_learned:
        raise SystemExit(EXIT_NOT_LEARNED)
