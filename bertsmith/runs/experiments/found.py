"""What an experiment's parts have left on disk -> the numbers of its cells.

It reads results and trains nothing; a cell that has none yet, or can have none, says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean

from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Experiment,
    Perplexity,
    Place,
    Score,
    exams_of,
)
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import (
    Outcome,
    also_measured,
    ensemble_of,
    is_made,
    outcome_of,
    points_of,
    reason_lost,
    sound_runs,
)
from bertsmith.runs.failure import failure_by
from bertsmith.runs.search_record import Results, RunResult, name_of
from bertsmith.tasks.means import combination, mean_interval
from bertsmith.tasks.metrics import Interval
from bertsmith.train.log import read_metrics

_WITHOUT_LIMITS = Interval(low=-math.inf, high=math.inf)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What is known of a cell."""

    values: tuple[float, ...] = ()
    """One a seed, in the paper's units; empty where there are none."""
    num_runs: int = 0
    """Of the point that counts, those that have ended, with a value or without."""
    num_failed: int = 0
    """Of these, those no better than guessing by the metric that is told, which count, and those
    without a value."""
    num_lost: int = 0
    """Of these, those without a value."""
    gap: str = ""
    """Why there is nothing, or not all that the cell asks for."""
    seconds: float = 0.0
    """Training time of all its runs."""
    is_elsewhere: bool = False
    """Whether another machine has found it."""
    is_ensemble: bool = False
    """Whether its value is of all runs together."""
    average_half_width: float = math.nan
    """Of an average, half its 95% interval, which follows from its columns; else NaN."""
    average_freedom: float = math.nan
    """Of an average, the degrees of freedom of that interval; else NaN."""
    num_averaged: int = 0
    """Of an average, the runs with a value behind it, each once; else 0."""

    @property
    def settled(self) -> tuple[float, ...]:
        """The values, where all of its runs have ended; else none: which ended first is chance."""
        return () if self.gap else self.values

    @property
    def num_valued(self) -> int:
        """Runs with a value; of an ensemble, its members and those that guess."""
        if self.is_ensemble:
            return self.num_runs - self.num_lost
        return self.num_averaged or len(self.values)

    @property
    def num_guessing(self) -> int:
        """Runs with a value that is no better than guessing."""
        return self.num_failed - self.num_lost

    @property
    def is_guessing(self) -> bool:
        """Whether there are values, and all of them are no better than guessing."""
        return 0 < self.num_valued <= self.num_guessing

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
        """Of the mean's 95% interval (Student; of an average Welch); NaN where none is told.

        None is while runs are missing.
        """
        if self.gap:
            return math.nan
        if not math.isnan(self.average_half_width):
            return self.average_half_width
        interval = mean_interval(self.values, _WITHOUT_LIMITS)[2] if self.values else None
        return math.nan if interval is None else (interval.high - interval.low) / 2

    @property
    def freedom(self) -> float:
        """Degrees of freedom of that interval."""
        return len(self.values) - 1.0 if math.isnan(self.average_freedom) else self.average_freedom


Findings = Mapping[Place, Finding]
Guesses = Callable[[Score], float | None]
"""What one answer to all reaches on a cell's Dev examples, in the metric that it tells."""
_NOT_YET = Finding(gap="not run yet")


def _not_known(score: Score) -> None:
    return None


def findings(
    experiment: Experiment, site: Site, gaps: Mapping[str, str], guesses: Guesses = _not_known
) -> dict[Place, Finding]:
    """Every cell of ours; `gaps` says, by exam, why its examples are not there."""
    found: dict[Place, Finding] = {}
    for row, column, cell in experiment.cells():
        place = Place(row=row.title, column=column)
        if isinstance(cell, Average):
            found[place] = _average(
                [
                    (part, found[Place(row=row.title, column=name)])
                    for name, part in zip(experiment.columns, row.cells, strict=True)
                    if name in cell.columns
                ]
            )
        else:
            found[place] = finding(cell, site, gaps, guesses)
    return found


def finding(
    cell: Score | Perplexity,
    site: Site,
    gaps: Mapping[str, str],
    guesses: Guesses = _not_known,
) -> Finding:
    """What one cell's runs have left.

    A run is guessing where `guesses` say so of its score in the metric that the cell tells. In the
    metric that chooses it is too where it was found to be when it ended; so in any metric of which
    `guesses` know nothing.
    """
    for exam in exams_of(cell):
        if exam in gaps:
            return Finding(gap=gaps[exam])
    if isinstance(cell, Perplexity):
        found = _perplexity(cell, site)
    else:
        found = _score(cell, outcome_of(cell, site), site, guesses)
    reason = "" if found.is_elsewhere else reason_lost(cell.model, site)
    return Finding(gap=reason) if reason else found


def _score(score: Score, outcome: Outcome, site: Site, guesses: Guesses) -> Finding:
    results = outcome.results
    ended = _best_point(score, results)
    if not ended:
        return _NOT_YET
    about = Finding(
        num_runs=len(ended),
        gap=_unfinished(score, results),
        num_failed=_num_failed(score, ended, guesses),
        num_lost=sum(not each.scores for each in ended),
        seconds=sum(each.seconds for each in results.runs.values()),
        is_elsewhere=outcome.is_elsewhere,
    )
    if not about.gap and not any(each.scores for each in ended):
        return replace(about, gap=f"all {len(ended)} runs failed, and gave no number")
    if score.taken == "ensemble":
        return _as_one(score, results, about)
    scores = {each.name: each.scores for each in ended if each.scores}
    if score.measured_on:
        also = also_measured(outcome, score.measured_on, site)
        if about.gap or not scores.keys() <= also.keys():
            return replace(about, gap=about.gap or _NOT_YET.gap)
        scores = {name: dict(also[name]) for name in scores}
    return replace(about, values=tuple(_in_units(score, each) for each in scores.values()))


def _unfinished(score: Score, results: Results) -> str:
    """How many of a cell's runs, at all points, have ended; empty where all have."""
    names = [name_of(run) for point in points_of(score) for run in point]
    num_ended = sum(name in results.runs for name in names)
    return f"{num_ended} of {len(names)} runs have ended" if num_ended < len(names) else ""


def _num_failed(score: Score, ended: Sequence[RunResult], guesses: Guesses) -> int:
    """Runs without a value, and those no better than guessing by the metric that the cell tells."""
    reached, chooses = guesses(score), EXAMS[score.exam].metric
    if reached is None:
        return sum(bool(each.failure) for each in ended)
    metric = score.metric or chooses
    return sum(
        bool(failure_by(metric, each.failure, each.scores, reached))
        or (metric == chooses and bool(each.failure))
        for each in ended
    )


def _best_point(score: Score, results: Results) -> list[RunResult]:
    """Of the point that counts, the runs that have ended.

    It is chosen on the exam's own Dev, whatever is measured then; one of which more runs gave a
    number comes before others.
    """
    chooses = EXAMS[score.exam].metric
    best: tuple[tuple[int, float], list[RunResult]] = ((0, -math.inf), [])
    for point in points_of(score):
        ended = [results.runs[name] for run in point if (name := name_of(run)) in results.runs]
        found = [each.scores[chooses] for each in ended if each.scores]
        key = (len(found), mean(found) if found else -math.inf)
        if ended and (not best[1] or key > best[0]):
            best = (key, ended)
    return best[1]


def _as_one(score: Score, results: Results, about: Finding) -> Finding:
    """Of an ensemble."""
    if about.gap:
        return about
    sound = len(sound_runs(score, results))
    if sound < 2:
        failed = about.num_runs - sound
        return replace(about, gap=f"{failed} of {about.num_runs} runs failed: no ensemble")
    ensemble = ensemble_of(score, results)
    if ensemble is None:
        return _NOT_YET
    return replace(about, values=(_in_units(score, ensemble.scores),), is_ensemble=True)


def _in_units(score: Score, scores: Mapping[str, float]) -> float:
    """The score that the cell asks for, as the paper tells it."""
    exam = EXAMS[score.measured_on or score.exam]
    return scores[score.metric or exam.metric] * (1.0 if exam.is_percent else 100.0)


def _perplexity(cell: Perplexity, site: Site) -> Finding:
    """Of the last evaluation on the held-out documents."""
    if is_made(cell.model, site):
        perplexity, seconds = perplexity_reached(site.of_model(cell.model))
        is_elsewhere = False
    elif known := site.elsewhere.get(site.name_of(cell.model)):
        perplexity, seconds, is_elsewhere = known.perplexity, known.seconds, True
    else:
        return _NOT_YET
    if perplexity is None:
        return Finding(gap="no documents were held out")
    return Finding(values=(perplexity,), num_runs=1, seconds=seconds, is_elsewhere=is_elsewhere)


def perplexity_reached(directory: Path) -> tuple[float | None, float]:
    """What a run's last evaluation says, None where it had no documents, and its seconds."""
    rows = read_metrics(directory / "metrics.jsonl")
    found = [row["evaluation_perplexity"] for row in rows if row.get("evaluation_perplexity")]
    seconds = sum(float(row.get("seconds") or 0.0) for row in rows)
    return float(found[-1] or math.nan) if found else None, seconds


def _average(parts: Sequence[tuple[Cell | None, Finding]]) -> Finding:
    """Of a row's columns; those of the same runs, such as both of MNLI's, vary together."""
    if missing := sum(not part.settled for _, part in parts):
        return Finding(gap=f"{missing} of its columns are missing, or not all of their runs")
    runs: list[tuple[Cell | None, list[float]]] = []
    behind: list[Finding] = []
    for cell, part in parts:
        plain = replace(cell, metric="", measured_on="") if isinstance(cell, Score) else cell
        same = next((values for before, values in runs if before == plain), None)
        if same is None or len(same) != len(part.values):
            runs.append((plain, list(part.values)))
            behind.append(part)
        else:
            same[:] = map(sum, zip(same, part.values, strict=True))
    average = combination([(1.0 / len(parts), values) for _, values in runs])
    return Finding(
        values=(average.value,),
        average_half_width=average.half_width,
        average_freedom=average.freedom,
        num_averaged=sum(part.num_valued for part in behind),
        num_runs=sum(part.num_runs for part in behind),
        num_failed=sum(part.num_failed for part in behind),
        num_lost=sum(part.num_lost for part in behind),
        seconds=sum(part.seconds for part in behind),
    )
