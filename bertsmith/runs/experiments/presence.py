"""A part of an experiment -> whether it is there, here or found elsewhere, or came to nothing.

A model is lost where training it ended in what is no number; what begins with it is lost too, and
nothing of it is tried again. It makes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.places import CONFIG, newest_checkpoint
from bertsmith.files import read_json
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Joined,
    Model,
    Perplexity,
    Pretrained,
    Score,
    Tuned,
    made_of,
)
from bertsmith.recipes.finetuning import FinetuneRun, Grid, restarts
from bertsmith.runs.directory import RECORD, checkpoint_path, reached
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.search_record import (
    PointEnsemble,
    Results,
    name_of,
    point_name,
    read_results,
)

DIVERGED = "diverged.txt"
"""In the directory of a pre-training run that ended in what is no number: what was said of it."""
ALSO = "also.json"
"""Beside a search's results: what its models reach on another set's Dev examples."""
Scores = Mapping[str, Mapping[str, float]]
"""Metrics by name, by the name of the run."""
Measured = Score | Perplexity
"""A cell with numbers of its own."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the runs of a fine-tuned cell have reached."""

    results: Results
    also: Mapping[str, Any]
    """On other sets: what `also.json` holds."""
    is_elsewhere: bool = False
    """Whether another machine has found it."""


def is_there(part: Model | Measured, site: Site) -> bool:
    """Whether nothing of it is to be made, and be it because nothing can come of it.

    The numbers of a cell may be there where its model is not.
    """
    if isinstance(part, Score):
        return bool(reason_lost(part.model, site)) or _suffices(part, outcome_of(part, site), site)
    if isinstance(part, Perplexity):
        return is_there(part.model, site) or site.name_of(part.model) in site.elsewhere
    return is_made(part, site) or bool(reason_lost(part, site))


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
    ended = read_results(directory).runs.get(name_of(model.learned.run))
    return ended is not None and bool(ended.scores) and has_weights(directory / ended.name)


def reason_lost(model: Model, site: Site) -> str:
    """Why a model cannot be made; empty where it can."""
    for begun in made_of(model):
        if reason := reason_lost(begun, site):
            return reason
    directory = site.of_model(model)
    if isinstance(model, Tuned):
        ended = read_results(directory).runs.get(name_of(model.learned.run))
        is_lost = ended is not None and not ended.scores
        return f"learning {model.learned.exam} first failed ({directory})" if is_lost else ""
    if not (isinstance(model, Pretrained) and (directory / DIVERGED).is_file()):
        return ""
    return "" if is_made(model, site) else f"pre-training diverged ({directory / DIVERGED})"


def has_ended(score: Score, directory: Path) -> bool:
    """Whether every run of a cell has ended, well or not."""
    names = read_results(directory).runs
    return all(name_of(run) in names for point in points_of(score) for run in point)


def has_weights(run: Path) -> bool:
    """Whether a fine-tuning run still holds its model."""
    return newest_checkpoint(run) is not None


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


def sound_runs(score: Score, results: Results) -> tuple[str, ...]:
    """Of the first point's runs, those that did not fail: the members of an ensemble."""
    names = map(name_of, points_of(score)[0])
    return tuple(name for name in names if name in results.runs and not results.runs[name].failure)


def ensemble_of(score: Score, results: Results) -> PointEnsemble | None:
    """Of the first point's restarts, all of them that did not fail; None where it is not made."""
    found = results.ensembles.get(point_name(points_of(score)[0][0]))
    return None if found is None or found.names != sound_runs(score, results) else found


def outcome_of(score: Score, site: Site) -> Outcome:
    """What was reached here; where that is not all, and another machine has all, there."""
    directory, known = site.of_score(score), site.elsewhere.get(site.name_of(score))
    path = directory / ALSO
    also: Mapping[str, Any] = read_json(path) if path.is_file() else {}
    here = Outcome(results=read_results(directory), also=also)
    if known is None or _suffices(score, here, site):
        return here
    there = Outcome(results=known.results, also=known.also, is_elsewhere=True)
    return there if _suffices(score, there, site) else here


def also_measured(outcome: Outcome, exam: str, site: Site) -> Scores:
    """What the runs reach on another exam's Dev, as its files are now."""
    found = outcome.also.get(exam)
    if found is None or found["examples"] != site.hash_of(exam):
        return {}
    scores: Scores = found["scores"]
    return scores


def _suffices(score: Score, outcome: Outcome, site: Site) -> bool:
    """Whether all that a cell reads is there."""
    results = outcome.results
    names = {name_of(run) for point in points_of(score) for run in point}
    if not names <= results.runs.keys():
        return False
    scores = {name: results.runs[name].scores for name in names if results.runs[name].scores}
    if any(EXAMS[score.exam].metric not in each for each in scores.values()):
        return False
    if score.taken == "ensemble" and len(sound_runs(score, results)) > 1:
        return ensemble_of(score, results) is not None
    if not score.measured_on:
        return True
    return scores.keys() <= also_measured(outcome, score.measured_on, site).keys()
