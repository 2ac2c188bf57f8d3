"""A line of answers in short: the rows that it names -> ours beside what else one could use.

It knows no other table. A line's rows are of one machine, model and number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.tables.answers import OPENVINO, OPENVINO_INT8, OURS_INT8, PIPELINES
from benchmarks.tables.shown import OURS, Row, amount, bold, rows_of, times

HEADER = (
    *("vectors a second", "OpenVINO", "", "pipelines", ""),
    *("classes, beside OpenVINO", "128 tokens"),
    *("one text, ms", "OpenVINO", ""),
    *("in eight bits, vectors a second", "beside OpenVINO's"),
)
"""What follows the label and the numbers of the rows."""

Figures = Mapping[str, float]


def summaries(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """A line a machine and model; of several rows the last one that has a setting tells it.

    OpenVINO's is the better one of its hints. Ratios of speeds are ours by theirs, and so are those
    of times.
    """
    return [[label, rows, *_summary(rows_of("inference", rows))] for label, rows, *_ in lines]


def _summary(rows: Sequence[Row]) -> list[str]:
    mixed, classes, full, one = (
        _figures(rows, setting)
        for setting in (
            "embed, mixed",
            "classify, mixed",
            "embed, 128 tokens",
            "one text, 16 tokens",
        )
    )
    others = [mixed[name] for name in OPENVINO if name in mixed]
    cells = [bold(_shown(mixed, OURS)), amount(max(others)), times(mixed[OURS], max(others))]
    cells += [_shown(mixed, PIPELINES), _beside(mixed, OURS, (PIPELINES,))]
    cells += [_beside(each, OURS, OPENVINO) for each in (classes, full)]
    waits = [one[name] for name in OPENVINO if name in one]
    cells += [bold(_shown(one, OURS)), amount(min(waits)), amount(one[OURS] / min(waits))]
    return [*cells, bold(_shown(mixed, OURS_INT8)), _beside(mixed, OURS_INT8, OPENVINO_INT8)]


def _figures(rows: Sequence[Row], name: str) -> Figures:
    """Texts a second of each system, or milliseconds for one; nothing where no row has any."""
    found = [row["settings"][name] for row in rows if name in row["settings"]]
    if not found:
        return {}
    figures: Figures = found[-1].get("median_ms") or found[-1]["texts_per_second"]
    return figures


def _shown(figures: Figures, system: str) -> str:
    return amount(figures[system]) if system in figures else ""


def _beside(figures: Figures, ours: str, others: Sequence[str]) -> str:
    theirs = [figures[other] for other in others if other in figures]
    return times(figures[ours], max(theirs)) if ours in figures and theirs else ""
