"""An experiment's findings -> one picture: means with their intervals, the paper's figures beside.

Each column has a panel of its own, since what the paper reached at its size lies elsewhere. A mean
without an interval, of a single run or of equal ones, or while runs are missing, is hollow.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from bertsmith.files import atomic_file
from bertsmith.recipes.experiments.experiment import Experiment, Place
from bertsmith.runs.experiments.found import Finding, Findings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class _Style(TypedDict):
    marker: str
    color: str
    fillstyle: Literal["full", "none"]


_WITH_INTERVAL: _Style = {"marker": "o", "color": "C0", "fillstyle": "full"}
_ALONE: _Style = {"marker": "o", "color": "C0", "fillstyle": "none"}
_OF_PAPER: _Style = {"marker": "D", "color": "C1", "fillstyle": "none"}
_PANEL_INCHES, _ROW_INCHES = 3.2, 0.42
_MOST_ABREAST = 5


def draw(experiment: Experiment, found: Findings, path: Path) -> None:
    """Writes a PNG."""
    from matplotlib.figure import Figure

    if experiment.layout == "curves":
        figure = Figure(figsize=(7.0, 4.5), layout="constrained")
        _draw_curves(figure.subplots(), experiment, found)
    else:
        count = len(experiment.columns)
        num_lines = -(-count // _MOST_ABREAST)
        abreast = -(-count // num_lines)
        height = num_lines * (0.7 + _ROW_INCHES * len(experiment.rows)) + 0.7
        figure = Figure(figsize=(2.2 + _PANEL_INCHES * abreast, height), layout="constrained")
        panels = figure.subplots(num_lines, abreast, sharey=True, squeeze=False).ravel()
        for axes, column in zip(panels, experiment.columns, strict=False):
            _draw_column(axes, experiment, column, found)
        for empty in panels[count:]:
            empty.set_axis_off()
        figure.legend(*_marks(), loc="outside lower center", ncols=3, fontsize="small")
    figure.suptitle(f"{experiment.source}: {experiment.title}")
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=120)


def _marks() -> tuple[list[Line2D], list[str]]:
    """What the marks of columns mean."""
    from matplotlib.lines import Line2D

    styles = (_WITH_INTERVAL, _ALONE, _OF_PAPER)
    told = ["here, with the mean's 95% interval", "here, without", "paper"]
    return [Line2D([], [], linestyle="", **style) for style in styles], told


def _draw_column(axes: Axes, experiment: Experiment, column: str, found: Findings) -> None:
    """Ours as points with 95% intervals, the paper's as diamonds."""
    number = experiment.columns.index(column)
    for height, row in enumerate(experiment.rows):
        finding = found.get(Place(row=row.title, column=column), Finding())
        if math.isnan(finding.half_width):
            axes.plot(finding.mean, height, **_ALONE)
        else:
            error = finding.half_width
            axes.errorbar(finding.mean, height, xerr=error, fmt="o", color="C0", capsize=3)
        paper = row.paper[number] if row.paper else None
        if paper is not None:
            axes.plot(paper, height, **_OF_PAPER)
    axes.set_yticks(range(len(experiment.rows)), [row.title for row in experiment.rows])
    axes.set_ylim(len(experiment.rows) - 0.5, -0.5)
    axes.set_title(column)
    axes.grid(alpha=0.3)


def _draw_curves(axes: Axes, experiment: Experiment, found: Findings) -> None:
    """A line for every group of rows."""
    column = experiment.columns[0]
    for group in dict.fromkeys(row.group for row in experiment.rows):
        points = [
            (row.position, finding)
            for row in experiment.rows
            if row.group == group
            and (finding := found.get(Place(row=row.title, column=column), Finding())).values
        ]
        if points:
            errors = [0.0 if math.isnan(f.half_width) else f.half_width for _, f in points]
            positions, means = [p for p, _ in points], [f.mean for _, f in points]
            axes.errorbar(positions, means, yerr=errors, marker="o", capsize=3, label=group)
    axes.set_xlabel("pre-training steps")
    axes.set_ylabel(column)
    axes.grid(alpha=0.3)
    axes.legend()
