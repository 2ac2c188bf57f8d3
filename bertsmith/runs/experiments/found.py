"""What an experiment's parts have left on disk -> the numbers of its cells.

It reads results and trains nothing; a cell that has none yet, or can have none, says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

from bertsmith.checkpoints.places import CONFIG
from bertsmith.files import read_json
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Average,
    Experiment,
    Joined,
    Model,
    Perplexity,
    Place,
    Pretrained,
    Score,
)
from bertsmith.recipes.finetuning import FinetuneRun, Grid, restarts
from bertsmith.runs.directory import RECORD, checkpoint_path, reached
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.search_record import Results, name_of, point_name, read_results
from bertsmith.tasks.metrics import Interval, mean_interval
from bertsmith.train.log import read_metrics

ALSO = "also.json"
"""Beside a search's results: what its models reach on another set's Dev examples."""
_WITHOUT_LIMITS = Interval(low=-math.inf, high=math.inf)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is known of a cell."""

    values: tuple[float, ...] = ()
    """One a seed, in the paper's units; empty where there are none."""
    num_failed: int = 0
    """Of the seeds, those that ended without a score, or no better than guessing."""
    gap: str = ""
    """Why there is nothing."""
    seconds: float = 0.0
    """Training time of all its runs."""

    @property
    def mean(self) -> float:
        """Over the seeds; NaN for none."""
        return mean(self.values) if self.values else math.nan

    @property
    def deviation(self) -> float:
        """Over the seeds; NaN for fewer than two."""
        if len(self.values) < 2:
            return math.nan
        return mean_interval(self.values, _WITHOUT_LIMITS)[1]

    @property
    def half_width(self) -> float:
        """Of the mean's 95% interval (Student); NaN where none is told."""
        interval = mean_interval(self.values, _WITHOUT_LIMITS)[2] if self.values else None
        return math.nan if interval is None else (interval.high - interval.low) / 2


Findings = Mapping[Place, Finding]


def findings(experiment: Experiment, site: Site, gaps: Mapping[str, str]) -> dict[Place, Finding]:
    """Every cell of ours; `gaps` says, by exam, why its examples are not there."""
    found: dict[Place, Finding] = {}
    for row, column, cell in experiment.cells():
        place = Place(row=row.title, column=column)
        if isinstance(cell, Average):
            found[place] = _average([found[Place(row=row.title, column=c)] for c in cell.columns])
        else:
            found[place] = finding(cell, site, gaps)
    return found


def finding(cell: Score | Perplexity, site: Site, gaps: Mapping[str, str]) -> Finding:
    """What one cell's runs have left."""
    if isinstance(cell, Perplexity):
        return _perplexity(site.of_model(cell.model))
    for exam in (cell.exam, cell.measured_on):
        if exam in gaps:
            return Finding(gap=gaps[exam])
    return _score(cell, site.of_score(cell))


def is_made(model: Model, site: Site) -> bool:
    """Whether a model, or the checkpoint that is asked for, is there."""
    directory = site.of_model(model)
    if isinstance(model, Pretrained):
        if not (directory / RECORD).is_file():
            return False
        if model.step is not None:
            return checkpoint_path(directory, model.step).is_dir()
        return reached(directory) == model.run.num_steps
    if isinstance(model, Joined):
        return (directory / CONFIG).is_file()
    return bool(read_results(directory).runs)


def is_scored(score: Score, site: Site) -> bool:
    """Whether all runs that a cell reads have ended."""
    directory = site.of_score(score)
    results = read_results(directory)
    if any(name_of(run) not in results.runs for point in points_of(score) for run in point):
        return False
    if score.taken == "ensemble" and _ensemble_of(score, results) is None:
        return False
    return not score.measured_on or score.measured_on in _also(directory)


def points_of(score: Score) -> list[list[FinetuneRun]]:
    """The runs, point by point."""
    return [restarts(point, score.restarts) for point in grid_of(score).runs(score.run)]


def grid_of(score: Score) -> Grid:
    """The grid that is searched; of a single point where there is nothing to choose."""
    run = score.run
    return score.grid or Grid(
        batch_sizes=(run.batch_size,),
        learning_rates=(run.optimizer.learning_rate,),
        epochs=(run.epochs,),
    )


def _score(score: Score, directory: Path) -> Finding:
    results = read_results(directory)
    exam = EXAMS[score.measured_on or score.exam]
    metric, unit = score.metric or exam.metric, 1.0 if exam.is_percent else 100.0
    also = _also(directory).get(score.measured_on, {})
    best: list[tuple[str, float]] = []
    for point in points_of(score):
        names = [name for run in point if (name := name_of(run)) in results.runs]
        scores = {name: results.runs[name].scores for name in names}
        if score.measured_on:
            scores = {name: also[name] for name in names if name in also}
        found = [(name, unit * each[metric]) for name, each in scores.items() if metric in each]
        if found and (not best or _mean_of(found) > _mean_of(best)):
            best = found
    if not best:
        return Finding(gap="not run yet" if not results.runs else "every run failed")
    failed = sum(bool(results.runs[name].failure) for name, _ in best)
    values = tuple(value for _, value in best)
    if score.taken == "best":
        values = (max(values),)
    if score.taken == "ensemble":
        ensemble = _ensemble_of(score, results)
        if ensemble is None:
            return Finding(gap="not run yet")
        values = (unit * ensemble[metric],)
    seconds = sum(each.seconds for each in results.runs.values())
    return Finding(values=values, num_failed=failed, seconds=seconds)


def _ensemble_of(score: Score, results: Results) -> Mapping[str, float] | None:
    """The scores of the first point's restarts as one; None where they are not there."""
    found = results.ensembles.get(point_name(points_of(score)[0][0]))
    return None if found is None else found.scores


def _perplexity(directory: Path) -> Finding:
    """Of the last evaluation on the held-out documents."""
    rows = read_metrics(directory / "metrics.jsonl") if (directory / RECORD).is_file() else []
    found = [row["evaluation_perplexity"] for row in rows if row.get("evaluation_perplexity")]
    if not found:
        return Finding(gap="not run yet")
    seconds = sum(float(row.get("seconds") or 0.0) for row in rows)
    return Finding(values=(float(found[-1] or math.nan),), seconds=seconds)


def _average(parts: Sequence[Finding]) -> Finding:
    if missing := sum(not part.values for part in parts):
        return Finding(gap=f"{missing} of its columns are missing")
    return Finding(values=(mean(part.mean for part in parts),))


def _also(directory: Path) -> dict[str, dict[str, dict[str, float]]]:
    path = directory / ALSO
    return read_json(path) if path.is_file() else {}  # type: ignore[return-value]


def _mean_of(found: Sequence[tuple[str, float]]) -> float:
    return mean(value for _, value in found)
