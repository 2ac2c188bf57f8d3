"""What is known of a model's answers -> pictures; a run's metrics -> its learning curves.

One file a picture, beside the report that shows it. It computes nothing but means.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bertsmith.files import atomic_file
from bertsmith.tasks import metrics
from bertsmith.tasks.judged import Certainty, Confusion, Groups, Judged, Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, int | float | str | bool | None]

_MOST_LABELS = 30
"""More make a table of confusions that nobody reads."""
_MOST_GROUPS = 25
_POINTS = 200
"""A curve is the mean over at most so many windows of steps."""
_EVALUATION = "evaluation_"


def can_draw() -> bool:
    """Whether matplotlib is here."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_answers(judged: Judged, directory: Path) -> list[Path]:
    """Writes a picture of each thing that is known, and returns the files."""
    wanted: list[tuple[str, Callable[[Axes], None]]] = []
    if (confusion := judged.confusion) and len(confusion.labels) <= _MOST_LABELS:
        wanted.append(("confusion", partial(_draw_confusion, confusion=confusion)))
    if certainty := judged.certainty:
        wanted.append(("calibration", partial(_draw_calibration, certainty=certainty)))
    if numbers := judged.numbers:
        wanted.append(("numbers", partial(_draw_numbers, numbers=numbers)))
    for groups in judged.groups:
        if 1 < len(groups.rows) <= _MOST_GROUPS:
            name = "by-" + groups.name.replace(" ", "-")
            wanted.append((name, partial(_draw_groups, groups=groups)))
    from bertsmith.runs.fonts import as_written

    with as_written(_names_in(judged)):
        return [
            _drawn(directory / f"{name}.png", partial(_draw_alone, draw=draw), (6, 5))
            for name, draw in wanted
        ]


def draw_curves(runs: Sequence[tuple[str, Sequence[Row]]], path: Path, kind: str = "png") -> Path:
    """Loss and Dev scores of one run or several, by name, over the steps."""
    from bertsmith.runs.fonts import as_written

    with as_written("".join(name for name, _ in runs)):
        return _drawn(path, partial(_draw_runs, runs=runs), (10, 4), kind)


def _draw_runs(figure: Figure, runs: Sequence[tuple[str, Sequence[Row]]]) -> None:
    loss, score = figure.subplots(1, 2)
    for number, (name, rows) in enumerate(runs):
        label = name if len(runs) > 1 else ""
        _draw_losses(loss, rows, f"C{number}", label)
        _draw_scores(score, rows, number, label)
    if len(runs) > 1:
        loss.legend(fontsize="small")
    for axes, title in ((loss, "training loss"), (score, "scores on Dev")):
        axes.set_title(title)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
    figure.suptitle(", ".join(name for name, _ in runs))


def _names_in(judged: Judged) -> str:
    """All names that a person gave, as they are drawn."""
    labels = judged.confusion.labels if judged.confusion else ()
    parts = (part for groups in judged.groups for part, _, _ in groups.rows)
    return "".join(chain(labels, parts))


def _draw_alone(figure: Figure, draw: Callable[[Axes], None]) -> None:
    draw(figure.subplots())


def _drawn(
    path: Path, draw: Callable[[Figure], None], size: tuple[float, float], kind: str = "png"
) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    with atomic_file(path) as file:
        figure.savefig(file, format=kind, dpi=110)
    return path


def _draw_confusion(axes: Axes, confusion: Confusion) -> None:
    """Rows are what is right; shades are shares of a row, numbers are examples."""
    counts, places = confusion.counts, range(len(confusion.labels))
    shares = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    axes.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    axes.set_xticks(places, confusion.labels, rotation=45, ha="right")
    axes.set_yticks(places, confusion.labels)
    axes.set_xlabel("answered")
    axes.set_ylabel("right")
    for row, column in zip(*np.nonzero(counts), strict=True):
        colour = "white" if shares[row, column] > 0.6 else "black"
        axes.text(
            column, row, f"{counts[row, column]:,}", ha="center", va="center", color=colour,
            fontsize="small" if len(confusion.labels) < 12 else "xx-small",
        )  # fmt: skip


def _draw_calibration(axes: Axes, certainty: Certainty) -> None:
    bins = metrics.reliability(certainty.probabilities, certainty.is_right)
    error = metrics.calibration_error(certainty.probabilities, certainty.is_right)
    widths = 0.9 / len(bins.counts)
    there = bins.counts > 0
    axes.bar(
        bins.centres[there], bins.right[there], width=widths, alpha=0.7,
        label="share that is right",
    )  # fmt: skip
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", label="as sure as right")
    axes.plot(bins.sure[there], bins.right[there], color="C1", marker="o", label="mean of a bin")
    for centre, height, count in zip(
        bins.centres[there], bins.right[there], bins.counts[there], strict=True
    ):
        axes.text(centre, height + 0.01, f"{count:,}", ha="center", fontsize="x-small")
    axes.set(xlim=(0, 1), ylim=(0, 1.08), xlabel="probability of the answer")
    axes.set_title(f"calibration of {certainty.of}: ECE {error:.3f}")
    axes.legend(fontsize="small", loc="upper left")


def _draw_numbers(axes: Axes, numbers: Numbers) -> None:
    axes.scatter(numbers.right, numbers.predicted, s=8, alpha=0.4)
    ends = [float(numbers.right.min()), float(numbers.right.max())]
    axes.plot(ends, ends, color="grey", linestyle=":")
    axes.set(xlabel="right", ylabel="answered")
    axes.set_title(f"Pearson {metrics.pearson(numbers.predicted, numbers.right):.3f}")


def _draw_groups(axes: Axes, groups: Groups) -> None:
    """Bars side by side, a part a place, with how many there are."""
    places = np.arange(len(groups.rows))
    width = 0.8 / len(groups.metrics)
    for number, metric in enumerate(groups.metrics):
        heights = [values[number] for _, _, values in groups.rows]
        axes.bar(places + (number + 0.5) * width - 0.4, heights, width=width, label=metric)
    names = [f"{part} ({count:,})" for part, count, _ in groups.rows]
    axes.set_xticks(places, names, rotation=45, ha="right", fontsize="small")
    axes.set_title(f"by {groups.name}")
    axes.margins(y=0.25)  # room for the legend
    axes.legend(fontsize="small")


def _draw_losses(axes: Axes, rows: Sequence[Row], color: str, label: str) -> None:
    found = [(row["step"], row["loss"]) for row in rows if isinstance(row.get("loss"), float)]
    if not found:
        return
    steps, losses = np.array(found, np.float64).T
    windows = min(_POINTS, len(steps))
    axes.plot(
        [part.mean() for part in np.array_split(steps, windows)],
        [part.mean() for part in np.array_split(losses, windows)],
        color=color,
        label=label,
    )


def _draw_scores(axes: Axes, rows: Sequence[Row], number: int, label: str) -> None:
    """Of several runs, told apart by colour, only the score that chooses."""
    names = dict.fromkeys(name for row in rows for name in row if name.startswith(_EVALUATION))
    for place, name in enumerate(list(names)[:1] if label else names):
        found = [(row["step"], row[name]) for row in rows if name in row]
        steps, values = np.array(found, np.float64).T
        axes.plot(
            steps, values, marker="o", markersize=4, color=f"C{number + place}",
            label=f"{label} {name.removeprefix(_EVALUATION)}".strip(),
        )  # fmt: skip
    best = [row["step"] for row in rows if row.get("is_best")]
    if best and not label:
        axes.axvline(float(str(best[-1])), color="grey", linestyle=":", label="the best")
    if names:
        axes.legend(fontsize="small")
