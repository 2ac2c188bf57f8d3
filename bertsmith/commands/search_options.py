"""The command line of `bertsmith search`, as a value: that of finetune, a grid and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import tyro

from bertsmith.commands import finetune_options
from bertsmith.commands.finetune_options import Finetune
from bertsmith.recipes.finetuning import GRIDS, Grid

_LISTED = {
    "--batch-size": "--grid.batch-sizes",
    "--optimizer.learning-rate": "--grid.learning-rates",
    "--epochs": "--grid.epochs",
}
"""Options of one run -> the lists that take their place in a search."""


@dataclass(frozen=True, kw_only=True)
class Search(Finetune):
    """Fine-tunes once for each point of a grid and each seed; the same command again goes on.

    Every run is one of `bertsmith finetune`, in a directory of its own; the best on Dev is chosen.
    """

    grid: Grid = GRIDS["glue"]
    """What is tried, each with each; what is typed for the run itself (--batch-size 8) counts."""
    restarts: int = 1
    """Runs of each point, from --seed on: each seed shuffles and draws the head anew."""
    out: Path | None = None
    """The search's directory (default runs/MODEL-TASK-search)."""
    resume: Path | None = None
    """Continue the search in this directory; all but device and threads comes from there."""
    overfit_one_batch: tyro.conf.Suppress[tyro.conf.Fixed[bool]] = False
    """No option of a search, which has several runs."""
    typed: tyro.conf.Suppress[tyro.conf.Fixed[tuple[str, ...]]] = field(default=())
    """Names of the options that stood on the command line."""

    def __post_init__(self) -> None:
        """Refuses a search without a run."""
        if self.restarts < 1:
            raise ValueError(f"restarts must be at least 1, found {self.restarts}")


def defaults_of(arguments: Sequence[str]) -> Search:
    """The defaults for these arguments: the values and the grid of the recipe that they name."""
    begun = finetune_options.defaults_of(arguments)
    return Search(recipe=begun.recipe, run=begun.run, grid=GRIDS[begun.recipe], typed=begun.typed)


def grid_of(options: Search) -> Grid:
    """The grid, where a value typed for the run itself stands for a list of its own.

    Raises ValueError where both are typed.
    """
    run, grid = options.run, options.grid
    both = [
        (option, listed)
        for option, listed in _LISTED.items()
        if option in options.typed and listed in options.typed
    ]
    if both:
        raise ValueError(f"{' and '.join(both[0])} both say what is tried: leave one of them out")
    size, rate, epochs = (option in options.typed for option in _LISTED)
    return Grid(
        batch_sizes=(run.batch_size,) if size else grid.batch_sizes,
        learning_rates=(run.optimizer.learning_rate,) if rate else grid.learning_rates,
        epochs=(run.epochs,) if epochs else grid.epochs,
    )
