"""What has ended of a search -> its table, line by line: every run, every point, the best.

A run that failed is named and counted, and a mean is shown with it and without it. It trains and
measures nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bertsmith.files import write_text
from bertsmith.reading.counted import counted
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.progress import duration
from bertsmith.runs.search_record import (
    PointEnsemble,
    Results,
    RunResult,
    SearchRecord,
    chosen_run,
    name_of,
    point_name,
)
from bertsmith.tasks.means import mean_interval
from bertsmith.tasks.metrics import Interval
from bertsmith.tasks.task import Classification, MultipleChoice, SpanAnswering, Tagging, Task

_CORRELATIONS = ("matthews", "pearson", "spearman")


def best_of(results: Results) -> RunResult | None:
    """The run of the highest first metric that has not failed; the first one of equals."""
    sound = [each for each in results.runs.values() if not each.failure]
    return max(sound, key=_first_score, default=None)


def table(record: SearchRecord, results: Results, task: Task[Any, Any, Any]) -> list[str]:
    """All that has ended; the task says what its scores can be."""
    lines = _rows(record, results)
    for point in record.points():
        ended = [results.runs[name_of(run)] for run in point if name_of(run) in results.runs]
        if record.restarts > 1 and ended:
            lines += ["", *_summary(point[0], ended, task)]
            lines += _ensemble(results.ensembles.get(point_name(point[0])))
    return [*lines, "", *_conclusion(record, results), *_tuned(results, task)]


def write_readme(
    directory: Path,
    record: SearchRecord,
    results: Results,
    task: Task[Any, Any, Any],
    options: str,
    origin: Sequence[str],
) -> None:
    """Writes what the directory holds, where it comes from and what was reached."""
    where, chosen = shlex.quote(str(directory)), chosen_run(directory)
    write_text(
        directory / "README.md",
        "\n".join(
            [
                f"# A search: {len(results.runs)} of {len(record.names())} runs have ended",
                "",
                "    " + record.command,
                "",
                *(f"- {line}" for line in origin),
                "",
                "```text",
                *table(record, results, task),
                "```",
                "",
                *([f"`best/` holds the model of `{chosen}`.", ""] if chosen else []),
                "Each run is a directory of its own, of the same making as those of `bertsmith "
                "finetune`; `results.json` holds the table.",
                "",
                "```bash",
                *([f"bertsmith evaluate {where} {options}"] if chosen else []),
                f"bertsmith search --resume {where}",
                "```",
                "",
            ]
        ),
    )


def _rows(record: SearchRecord, results: Results) -> list[str]:
    """A line for each run: scores, training loss, step, time; why it has failed."""
    metrics = list(next((each.scores for each in results.runs.values() if each.scores), {}))
    head = ["run", *metrics, "loss", "step", "time", ""]
    cells = [head]
    for name in record.names():
        result = results.runs.get(name)
        if result is None:
            cells.append([name, *("" for _ in head[1:-1]), "not ended"])
            continue
        cells.append(
            [
                name,
                *(_figure(result.scores.get(metric)) for metric in metrics),
                _figure(result.loss),
                f"{result.step:,}",
                duration(result.seconds),
                f"failed: {result.failure}" if result.failure else "",
            ]
        )
    widths = [max(len(row[column]) for row in cells) for column in range(len(head) - 1)]
    return [
        "  ".join(
            [
                f"{row[0]:<{widths[0]}}",
                *(f"{cell:>{width}}" for cell, width in zip(row[1:-1], widths[1:], strict=True)),
                row[-1],
            ]
        ).rstrip()
        for row in cells
    ]


def _summary(
    point: FinetuneRun, ended: Sequence[RunResult], task: Task[Any, Any, Any]
) -> list[str]:
    """The restarts of a point: mean, deviation and best of each metric."""
    failed = [each for each in ended if each.failure]
    lines = [
        f"batch {point.batch_size}, rate {point.optimizer.learning_rate:g}, {point.epochs:g} "
        f"epochs: {counted(len(ended), 'run')}, {len(failed) or 'none'} failed"
    ]
    if failed:
        lines[0] += f" (seed {', '.join(str(each.seed) for each in failed)})"
    scored = [each for each in ended if each.scores]
    lines += _means(scored, task, "all" if len(scored) == len(ended) else "of those with a score")
    if failed and len(sound := [each for each in ended if not each.failure]) != len(scored):
        lines += _means(sound, task, "without failed")
    return lines


def _means(runs: Sequence[RunResult], task: Task[Any, Any, Any], which: str) -> list[str]:
    lines = []
    for name in runs[0].scores if runs else ():
        scores = [each.scores[name] for each in runs]
        mean, deviation, interval = mean_interval(scores, score_range(task, name))
        best = max(runs, key=lambda each: each.scores[name])
        spread = f", deviation {deviation:.2g}" if len(runs) > 1 else ""
        around = f" (mean, 95%: {interval.low:.4g} to {interval.high:.4g})" if interval else ""
        lines.append(
            f"  {name}, {which}: mean {mean:.4g} of {counted(len(runs), 'run')}{spread}, best "
            f"{best.scores[name]:.4g} of seed {best.seed}{around}"
        )
    return lines


def _ensemble(ensemble: PointEnsemble | None) -> list[str]:
    """A line for each score that the restarts of a point reach as one."""
    if ensemble is None:
        return []
    lines = []
    for name, score in ensemble.scores.items():
        told = f"  {name}, ensemble of {len(ensemble.names)}: {score:.4g}"
        between = ensemble.intervals.get(name)
        lines.append(f"{told} (95%: {between[0]:.4g} to {between[1]:.4g})" if between else told)
    return lines


def _conclusion(record: SearchRecord, results: Results) -> list[str]:
    ended, failed = len(results.runs), [each for each in results.runs.values() if each.failure]
    best = best_of(results)
    lines = []
    if failed:
        lines.append(f"{counted(len(failed), 'run')} of {ended} failed, and none of them is chosen")
    if best is None:
        if ended:
            lines.append("no run is left to choose: try other rates, more epochs or more restarts")
        return lines
    name, score = next(iter(best.scores.items()))
    chosen = f"best on Dev: {best.name}, {name} {score:.4g}"
    scored = sum(bool(each.scores) for each in results.runs.values())
    if scored > 1:
        chosen += (
            f"; the highest of {scored} on the same Dev, so it flatters: other "
            f"examples will give less"
        )
    return [*lines, chosen]


def _tuned(results: Results, task: object) -> list[str]:
    """That thresholds come of the same examples; empty for tasks without one."""
    if not results.runs or not isinstance(task, SpanAnswering) or not task.config.with_null:
        return []
    told = "every run's threshold of no answer is the best for F1 on this Dev: so are its scores"
    return [f"{told}, and an ensemble has the mean of its runs' thresholds"]


def _first_score(result: RunResult) -> float:
    return next(iter(result.scores.values()))


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def score_range(task: Task[Any, Any, Any], name: str) -> Interval:
    """The lowest and the highest that a score can be; infinite for a task that is not known."""
    if isinstance(task, SpanAnswering):
        return Interval(low=0.0, high=100.0)
    if isinstance(task, Classification) and name in _CORRELATIONS:
        return Interval(low=-1.0, high=1.0)
    if isinstance(task, Classification | MultipleChoice | Tagging):
        return Interval(low=0.0, high=1.0)
    return Interval(low=-math.inf, high=math.inf)
