"""Runs' metrics -> one picture: losses beside the unigram line, accuracies, rate, speed.

`bertsmith plot RUN` writes RUN/curves.png; several runs are drawn over each other, into
comparison.png of the first one's directory. Of fine-tuning it shows the loss and the scores on Dev.
It reads metrics.jsonl and run.json only, so a run may still be going on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import tyro

from bertsmith.data.config import Masking
from bertsmith.files import atomic_file
from bertsmith.train.log import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bertsmith.runs.directory import Record

Row = dict[str, int | float | str | bool | None]

_POINTS = 200  # a curve is the mean over at most so many windows of steps


@dataclass(frozen=True, kw_only=True)
class Plot:
    """Draws the curves of one run or several."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Directories of runs."""
    out: Path | None = None
    """The picture, .png, .svg or .pdf; by default curves.png in the run's directory.

    Of several runs, comparison.png in the first one's.
    """


@dataclass(frozen=True, kw_only=True)
class Curves:
    """One run, ready to draw."""

    name: str
    record: Record
    rows: list[Row]


def plot(options: Plot) -> None:
    """Writes the picture and says where."""
    if not options.runs:
        raise ValueError("name at least one run's directory: bertsmith plot RUN")
    name = "curves.png" if len(options.runs) == 1 else "comparison.png"
    path = options.out or options.runs[0] / name
    draw(options.runs, path)
    print(f"wrote {path}")


def draw(runs: Sequence[Path], path: Path) -> None:
    """Writes the picture of the runs' curves.

    Raises FileNotFoundError for what is no run, ValueError for runs of both kinds.
    """
    # They import torch, which takes seconds: only now, when the options are known to be sound.
    from bertsmith.runs.directory import is_pretraining
    from bertsmith.runs.finetune_pictures import draw_curves

    of_pretraining = [is_pretraining(directory) for directory in runs]
    if not any(of_pretraining) and all((directory / "run.json").is_file() for directory in runs):
        named = [(directory.resolve().name, _rows_of(directory)) for directory in runs]
        draw_curves(named, path, _kind_of(path))
        return
    from bertsmith.runs.fonts import as_written

    curves = [_read(directory) for directory in runs]
    with as_written("".join(run.name for run in curves)):
        _draw_pretraining(curves, path, _kind_of(path))


def smoothed(steps: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Means over equal windows of rows, at most 200 of them: (mean steps, mean values)."""
    windows = min(_POINTS, len(values))
    if windows == 0:
        return [], []
    return (
        [float(part.mean()) for part in np.array_split(np.asarray(steps, float), windows)],
        [float(part.mean()) for part in np.array_split(np.asarray(values, float), windows)],
    )


def _draw_pretraining(curves: Sequence[Curves], path: Path, kind: str) -> None:
    """Four pictures in one: losses, accuracies, the rate, the speed."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    loss, accuracy, rate, speed = figure.subplots(2, 2).flat
    for number, run in enumerate(curves):
        color, label = f"C{number * 2}", run.name if len(curves) > 1 else ""
        _draw_losses(loss, run, color, label)
        _draw_accuracies(accuracy, run, number * 2, label)
        _curve(rate, run.rows, "learning_rate", "learning rate", color, label)
        _draw_speed(speed, run, color, label)
    for run in curves:
        _draw_phases(loss, [accuracy, rate, speed], run)
    for axes, title in (
        (loss, "language-model loss (nats)"), (accuracy, "accuracy"),
        (rate, "learning rate"), (speed, "real tokens per second"),
    ):  # fmt: skip
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
    loss.legend(fontsize="small")
    accuracy.legend(fontsize="small")
    figure.suptitle(", ".join(run.name for run in curves))
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=120)


def _read(directory: Path) -> Curves:
    # It imports torch, which takes seconds: only now, when the options are known to be sound.
    from bertsmith.runs.directory import read_record

    record = read_record(directory)
    return Curves(name=directory.resolve().name, record=record, rows=_rows_of(directory))


def _rows_of(directory: Path) -> list[Row]:
    path = directory / "metrics.jsonl"
    rows = read_metrics(path) if path.is_file() else []
    if not rows:
        raise ValueError(f"{path} holds no steps yet: nothing to draw")
    return rows


def _kind_of(path: Path) -> str:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    kind = path.suffix.removeprefix(".") or "png"
    if kind not in FigureCanvasAgg.get_supported_filetypes() and kind not in ("svg", "pdf"):
        raise ValueError(f"{path}: unknown kind of picture '{kind}'; use .png, .svg or .pdf")
    return kind


def _column(rows: list[Row], name: str) -> tuple[list[int], list[float]]:
    found = [(row["step"], row[name]) for row in rows if isinstance(row.get(name), int | float)]
    return (
        [int(step) for step, _ in found if step is not None],
        [float(value) for _, value in found if value is not None],
    )


def _curve(axes: Axes, rows: list[Row], column: str, name: str, color: str, label: str) -> None:
    steps, values = smoothed(*_column(rows, column))
    if values:
        axes.plot(steps, values, color=color, label=f"{label} {name}".strip(), linewidth=1.4)


def _points(axes: Axes, rows: list[Row], column: str, name: str, color: str, label: str) -> None:
    steps, values = _column(rows, column)
    if values:
        axes.plot(
            steps, values, color=color, marker="o", markersize=4, linestyle="--",
            label=f"{label} {name}".strip(),
        )  # fmt: skip


def _draw_losses(axes: Axes, run: Curves, color: str, label: str) -> None:
    objective = next(name for name in run.record.run.objectives if name != "next_sentence")
    training, held_out = "training", "held out"
    if objective == "masked_lm":  # evaluations mask as the paper does, whatever the run does
        training += f", {run.record.run.masking.rate:.0%} masked"
        held_out += f", {Masking().rate:.0%} masked"
    _curve(axes, run.rows, f"{objective}_loss", training, color, label)
    _points(axes, run.rows, "evaluation_loss", held_out, color, label)
    axes.axhline(
        run.record.unigram_entropy, color="grey", linestyle=":", label=f"{label} unigram".strip()
    )


def _draw_accuracies(axes: Axes, run: Curves, number: int, label: str) -> None:
    for place, objective in enumerate(run.record.run.objectives):
        short = objective.replace("_", " ")
        _curve(axes, run.rows, f"{objective}_accuracy", short, f"C{number + place}", label)
    _points(axes, run.rows, "evaluation_accuracy", "held out", f"C{number}", label)
    next_color = f"C{number + 1}"
    _points(axes, run.rows, "evaluation_next_accuracy", "held-out next", next_color, label)
    # Its share depends on the length: short sequences seldom hold two sentences that follow.
    steps, majority = _column(run.rows, "evaluation_next_majority")
    if majority:
        axes.plot(steps, majority, color="grey", linestyle=":", label="majority label")
    axes.set_ylim(0.0, 1.0)


def _draw_phases(named: Axes, others: Sequence[Axes], run: Curves) -> None:
    """A thin line where a phase begins; its length is written into the first picture."""
    start, last = 0, max(_column(run.rows, "step")[0])
    for phase in run.record.run.phases:
        if 0 < start < last:
            for axes in (named, *others):
                axes.axvline(start, color="grey", linewidth=0.6, alpha=0.6)
        if len(run.record.run.phases) > 1 and start < last:
            named.text(
                start, 0.01, f" length {phase.sequence_length}", fontsize="x-small", color="grey",
                transform=named.get_xaxis_transform(),
            )  # fmt: skip
        start += phase.steps


def _draw_speed(axes: Axes, run: Curves, color: str, label: str) -> None:
    steps, tokens = _column(run.rows, "tokens")
    _, seconds = _column(run.rows, "seconds")
    places, mean_tokens = smoothed(steps, tokens)
    _, mean_seconds = smoothed(steps, seconds)
    rates = [count / max(1e-9, time) for count, time in zip(mean_tokens, mean_seconds, strict=True)]
    if rates:
        axes.plot(places, rates, color=color, label=label, linewidth=1.4)
        axes.set_ylim(bottom=0.0)
