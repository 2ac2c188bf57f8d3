"""An experiment and its findings -> a table for a terminal, Markdown and CSV.

The paper's figures stand below ours, row by row; what is missing is named.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence

from bertsmith.recipes.experiments.experiment import Claim, Experiment, Place, Row
from bertsmith.runs.experiments import verdicts
from bertsmith.runs.experiments.found import Finding, Findings

_CSV = (
    "experiment", "scale", "row", "column", "mean", "deviation", "half_width_95", "runs", "failed",
    "paper", "gap", "seconds", "values",
)  # fmt: skip


def table(experiment: Experiment, found: Findings) -> list[list[str]]:
    """Cells as text, the head first; a row of ours is followed by the paper's."""
    lines = [["", *experiment.columns]]
    for row in experiment.rows:
        if any(cell is not None for cell in row.cells):
            lines.append([row.title, *(_ours(row, name, found) for name in experiment.columns)])
        if any(figure is not None for figure in row.paper):
            lines.append([f"paper: {row.title}", *map(_figure, row.paper)])
    return lines


def lines(experiment: Experiment, found: Findings) -> list[str]:
    """For a terminal: columns of equal width."""
    cells = table(experiment, found)
    widths = [max(len(line[number]) for line in cells) for number in range(len(cells[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def markdown(experiment: Experiment, found: Findings, about: Sequence[str]) -> str:
    """The whole report: table, gaps, claims, notes; `about` says what the scale is."""
    head, *rest = table(experiment, found)
    parts = [
        f"# {experiment.source}: {experiment.title}",
        "",
        *about,
        "",
        _line(head),
        _line(["---"] * len(head)),
        *map(_line, rest),
        "",
        "Mean +- deviation over (so many) seeds; lines that begin with *paper* are the paper's.",
        *_listed("Missing", gaps(experiment, found)),
        *_listed("Claims", [verdicts.sentence(experiment, c, found) for c in experiment.claims]),
        *_listed("Notes", experiment.notes),
    ]
    return "\n".join(parts) + "\n"


def claim_line(experiment: Experiment, claim: Claim, found: Findings) -> str:
    """A claim and its verdict, for a terminal."""
    return verdicts.sentence(experiment, claim, found).replace("**", "")


def gaps(experiment: Experiment, found: Findings) -> list[str]:
    """What is missing and why, each reason once."""
    reasons: dict[str, list[str]] = {}
    for place, finding in found.items():
        if finding.gap:
            columns = reasons.setdefault(finding.gap, [])
            columns += [] if place.column in columns else [place.column]
    told = [f"{', '.join(columns)}: {reason}" for reason, columns in reasons.items()]
    failed = [
        f"{place.row}, {place.column}: {finding.num_failed} of {len(finding.values)} runs failed "
        f"(no better than guessing, or no number)"
        for place, finding in found.items()
        if finding.num_failed
    ]
    return told + failed


def as_csv(experiment: Experiment, scale: str, found: Findings) -> str:
    """A line for every cell of ours and of the paper's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    for row in experiment.rows:
        for number, column in enumerate(experiment.columns):
            finding = found.get(Place(row=row.title, column=column), Finding())
            paper = row.paper[number] if row.paper else None
            if not finding.values and not finding.gap and paper is None:
                continue
            writer.writerow(
                [
                    experiment.name, scale, row.title, column, _number(finding.mean),
                    _number(finding.deviation), _number(finding.half_width), len(finding.values),
                    finding.num_failed, "" if paper is None else paper, finding.gap,
                    f"{finding.seconds:.0f}", " ".join(f"{v:.4f}" for v in finding.values),
                ]
            )  # fmt: skip
    return text.getvalue()


def _ours(row: Row, column: str, found: Mapping[Place, Finding]) -> str:
    finding = found.get(Place(row=row.title, column=column))
    if finding is None:
        return ""
    if not finding.values:
        return "-"
    if len(finding.values) == 1:
        return f"{finding.mean:.1f}"
    return f"{finding.mean:.1f} +- {finding.deviation:.1f} ({len(finding.values)})"


def _figure(figure: float | None) -> str:
    return "" if figure is None else f"{figure:g}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {line}" for line in lines)] if lines else []
