"""A line of answers in short: the rows that it names -> ours beside what else one could use.

It knows no other table. A line's rows are of one machine, model and number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from benchmarks.tables.answers import OPENVINO, OPENVINO_INT8, OURS_INT8, PIPELINES, figures
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
    cells = [bold(_shown(mixed, OURS)), _best(mixed, max), _beside(mixed, OURS, OPENVINO)]
    cells += [_shown(mixed, PIPELINES), _beside(mixed, OURS, (PIPELINES,))]
    cells += [_beside(each, OURS, OPENVINO) for each in (classes, full)]
    cells += [bold(_shown(one, OURS)), _best(one, min), _time_beside(one)]
    return [*cells, bold(_shown(mixed, OURS_INT8)), _beside(mixed, OURS_INT8, OPENVINO_INT8)]


def _figures(rows: Sequence[Row], name: str) -> Figures:
    """Texts a second of each system, or milliseconds for one; nothing where no row has any."""
    found = [row["settings"][name] for row in rows if name in row["settings"]]
    return figures(found[-1]) if found else {}


def _openvino(found: Figures) -> list[float]:
    return [found[name] for name in OPENVINO if name in found]


def _best(found: Figures, best: Callable[[list[float]], float]) -> str:
    theirs = _openvino(found)
    return amount(best(theirs)) if theirs else ""


def _time_beside(found: Figures) -> str:
    theirs = _openvino(found)
    return amount(found[OURS] / min(theirs)) if OURS in found and theirs else ""


def _shown(found: Figures, system: str) -> str:
    return amount(found[system]) if system in found else ""


def _beside(found: Figures, ours: str, others: Sequence[str]) -> str:
    theirs = [found[other] for other in others if other in found]
    return times(found[ours], max(theirs)) if ours in found and theirs else ""
