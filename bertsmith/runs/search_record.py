"""The directory of a search: what stands in it, its `search.json`, and what its runs reached.

SEARCH/search.json, results.json (a row for every run that has ended), README.md, best/ (the model
of the best of these runs, and which it is of), and a directory for each run, which is one of
finetune.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.places import BEST
from bertsmith.checkpoints.searches import RESULTS, SEARCH
from bertsmith.files import read_json, write_json
from bertsmith.recipes.finetuning import FinetuneRun, Grid, from_json, restarts, to_json

CHOSEN = "chosen.json"
"""Beside the model in `best/`, and written with it: which run it is of."""


@dataclass(frozen=True, kw_only=True)
class SearchRecord:
    """What `search.json` holds."""

    run: FinetuneRun
    """What all runs have in common; its seed is the first."""
    grid: Grid
    """What is tried."""
    restarts: int
    """Runs of each point."""
    model_fingerprint: str
    """SHA-256 of the weights that every run begins with."""
    examples_fingerprint: str
    """SHA-256 of all that is learned and measured, as the model reads it."""
    request: dict[str, object]
    """What every run is asked for, but for what is searched."""
    command: str
    """What was typed."""
    versions: dict[str, str]
    """Python, the packages, and what else of the machine the bits depend on."""

    def points(self) -> list[list[FinetuneRun]]:
        """The runs, point by point."""
        return [restarts(point, self.restarts) for point in self.grid.runs(self.run)]

    def names(self) -> list[str]:
        """The directories of all runs."""
        return [name_of(run) for point in self.points() for run in point]


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """A run that has ended."""

    name: str
    """Its directory in the search's."""
    seed: int
    scores: dict[str, float]
    """What its model reaches on Dev, the metric that chooses first; empty where it has none."""
    step: int
    """The update after which its model was kept; where it has none, its last."""
    loss: float | None
    """The mean training loss over the last third of its steps."""
    seconds: float
    """Training time, evaluations not counted."""
    failure: str
    """Why it has failed; empty where it has not."""


@dataclass(frozen=True, kw_only=True)
class PointEnsemble:
    """The restarts of a point that did not fail, averaged."""

    names: tuple[str, ...]
    """Of the runs."""
    scores: dict[str, float]
    intervals: dict[str, tuple[float, float] | None]
    """95% of each score, over draws of the Dev examples; None where they score alike."""


@dataclass(kw_only=True)
class Results:
    """What has ended of a search."""

    runs: dict[str, RunResult]
    """By name."""
    ensembles: dict[str, PointEnsemble]
    """By the name of the point."""


def point_name(run: FinetuneRun) -> str:
    """`batch32-rate5e-05-epochs3`."""
    return f"batch{run.batch_size}-rate{run.optimizer.learning_rate:.15g}-epochs{run.epochs:.15g}"


def name_of(run: FinetuneRun) -> str:
    """`batch32-rate5e-05-epochs3-seed0`."""
    return f"{point_name(run)}-seed{run.seed}"


def write_search_record(directory: Path, record: SearchRecord) -> None:
    """Writes search.json atomically."""
    grid = dataclasses.asdict(record.grid)
    write_json(directory / SEARCH, {**vars(record), "run": to_json(record.run), "grid": grid})


def read_search_record(directory: Path) -> SearchRecord:
    """Reads search.json. Raises FileNotFoundError where no search is, ValueError for a damaged."""
    path = directory / SEARCH
    if not path.is_file():
        raise FileNotFoundError(
            f"{directory} is not the directory of a search: it has no {SEARCH}; start one with "
            f"`bertsmith search MODEL ... --out {shlex.quote(str(directory))}`"
        )
    content: dict[str, Any] = read_json(path)
    try:
        grid = Grid(**{name: tuple(values) for name, values in content["grid"].items()})
        return SearchRecord(**{**content, "run": from_json(content["run"]), "grid": grid})
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} was not written by this version of bertsmith ({error}); start the search "
            f"again in another directory"
        ) from error


def chosen_run(directory: Path) -> str | None:
    """The run whose model `best/` holds, whatever else has ended since; None where none says so."""
    path = directory / BEST / CHOSEN
    return str(read_json(path)["run"]) if path.is_file() else None


def write_results(directory: Path, results: Results) -> None:
    """Writes results.json atomically."""
    write_json(directory / RESULTS, content_of(results))


def content_of(results: Results) -> dict[str, object]:
    """The results as JSON values, which `results_of` reads."""
    return {
        "runs": [dataclasses.asdict(each) for each in results.runs.values()],
        "ensembles": {name: vars(each) for name, each in results.ensembles.items()},
    }


def read_results(directory: Path) -> Results:
    """Reads what has ended so far; a run whose directory is gone has not.

    Raises ValueError for a file that holds something else.
    """
    path = directory / RESULTS
    if not path.is_file():
        return Results(runs={}, ensembles={})
    try:
        found = results_of(read_json(path))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} was not written by this version of bertsmith ({error!r}); search in another "
            f"directory"
        ) from error
    runs = {name: each for name, each in found.runs.items() if (directory / name).is_dir()}
    return Results(runs=runs, ensembles=found.ensembles)


def results_of(content: Mapping[str, Any]) -> Results:
    """What a results.json holds. Raises KeyError or TypeError for other content."""
    runs = [RunResult(**each) for each in content["runs"]]
    return Results(
        runs={each.name: each for each in runs},
        ensembles={name: _ensemble(each) for name, each in content["ensembles"].items()},
    )


def _ensemble(content: Mapping[str, Any]) -> PointEnsemble:
    intervals: Mapping[str, Sequence[float] | None] = content["intervals"]
    return PointEnsemble(
        names=tuple(content["names"]),
        scores=content["scores"],
        intervals={
            name: None if each is None else (each[0], each[1]) for name, each in intervals.items()
        },
    )
