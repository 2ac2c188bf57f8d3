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

_BETWEEN = "  "

SPREAD = (
    "Mean +- deviation over (so many) seeds of fine-tuning, then half the mean's 95% interval "
    "(Student). A cell's runs begin with one pre-trained model and are measured on one set: what "
    "another seed of pre-training would give, the same seed on another machine, or other examples "
    "of Dev, is in no interval here, so a verdict is of these models."
)


def table(experiment: Experiment, found: Findings) -> list[list[str]]:
    """Cells as text, the head first; a row of ours is followed by the paper's."""
    columns = experiment.columns
    lines = [["", *columns]]
    for row in experiment.rows:
        if any(cell is not None for cell in row.cells):
            lines.append([row.title, *(_ours(experiment, row, each, found) for each in columns)])
        if any(figure is not None for figure in row.paper):
            lines.append([f"paper: {row.title}", *map(_figure, row.paper)])
    return lines


def lines(experiment: Experiment, found: Findings, room: int) -> list[str]:
    """For a terminal: columns of equal width; those past `room` characters stand below, as often.

    A column that has no room even alone is told whole.
    """
    cells = table(experiment, found)
    widths = [max(len(line[number]) for line in cells) for number in range(len(cells[0]))]
    blocks: list[list[int]] = [[0]]
    for number in range(1, len(widths)):
        used = sum(widths[each] + len(_BETWEEN) for each in blocks[-1])
        if used + widths[number] > room and len(blocks[-1]) > 1:
            blocks.append([0])
        blocks[-1].append(number)
    told: list[str] = []
    for block in blocks:
        told += [""] if told else []
        told += [
            _BETWEEN.join(line[each].ljust(widths[each]) for each in block).rstrip()
            for line in cells
        ]
    return told


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
        f"{SPREAD} Lines that begin with *paper* are the paper's.",
        *_listed("Missing", gaps(found)),
        *_listed("Runs that failed", failures(found)),
        *_listed("Claims", [verdicts.sentence(experiment, c, found) for c in experiment.claims]),
        *_listed("Notes", experiment.notes),
    ]
    return "\n".join(parts) + "\n"


def claim_line(experiment: Experiment, claim: Claim, found: Findings) -> str:
    """A claim and its verdict, for a terminal."""
    return verdicts.sentence(experiment, claim, found).replace("**", "")


def gaps(found: Findings) -> list[str]:
    """What is missing, or not whole, and why, each reason once."""
    reasons: dict[str, list[Place]] = {}
    for place, finding in found.items():
        if finding.gap:
            reasons.setdefault(finding.gap, []).append(place)
    return [f"{_told(places, found)}: {reason}" for reason, places in reasons.items()]


def failures(found: Findings) -> list[str]:
    """Of cells that have a value all the same."""
    return [
        f"{place.row}, {place.column}: {_failures(finding)}"
        for place, finding in found.items()
        if finding.num_failed and finding.values
    ]


def as_csv(experiment: Experiment, scale: str, found: Findings) -> str:
    """A line for every cell of ours and of the paper's."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    for row in experiment.rows:
        for number, column in enumerate(experiment.columns):
            finding = found.get(Place(row=row.title, column=column), Finding())
            paper = row.paper[number] if row.paper else None
            num_values = 1 if finding.is_ensemble else finding.num_valued
            if not finding.values and not finding.gap and paper is None:
                continue
            writer.writerow(
                [
                    experiment.name, scale, row.title, column, _number(finding.mean),
                    _number(finding.deviation), _number(finding.half_width), num_values,
                    finding.num_failed, "" if paper is None else paper, finding.gap,
                    f"{finding.seconds:.0f}", " ".join(f"{v:.4f}" for v in finding.values),
                ]
            )  # fmt: skip
    return text.getvalue()


def _told(places: Sequence[Place], found: Findings) -> str:
    """Columns, where all their rows are meant; else each row with its columns."""
    columns = list(dict.fromkeys(place.column for place in places))
    if len(places) == sum(place.column in columns for place in found):
        return ", ".join(columns)
    rows = {
        place.row: [each.column for each in places if each.row == place.row] for place in places
    }
    return "; ".join(f"{row} ({', '.join(names)})" for row, names in rows.items())


def _failures(finding: Finding) -> str:
    """How many runs failed, and how."""
    kinds = (
        (finding.num_guessing, "no better than guessing"),
        (finding.num_lost, "without a number"),
    )
    told = " and ".join(f"{count} {kind}" for count, kind in kinds if count)
    return f"{finding.num_failed} of {finding.num_runs} runs failed: {told}"


def _ours(experiment: Experiment, row: Row, column: str, found: Mapping[Place, Finding]) -> str:
    finding = found.get(Place(row=row.title, column=column))
    if finding is None:
        return ""
    if not finding.values:
        return "-"
    digits = 2 if column in experiment.lower_is_better else 1  # as the paper tells perplexities
    told, half_width = f"{finding.mean:.{digits}f}", finding.half_width
    count = len(finding.values)
    if count > 1:
        told += f" +- {finding.deviation:.{digits}f}"
    if finding.gap:
        return f"{told} ({count} so far)"
    if count > 1:
        told += f" ({count})"
    return told if math.isnan(half_width) else f"{told}, 95%: {half_width:.{digits}f}"


def _figure(figure: float | None) -> str:
    return "" if figure is None else str(figure)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {line}" for line in lines)] if lines else []
