"""Rows of runs -> a table: mean and deviation of each system, and whether two differ.

Two systems agree when the difference of their means lies inside its own 95% interval, from the
deviations of both (Welch): a difference that seeds alone make.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from statistics import mean, median, stdev
from typing import Any

from benchmarks.finetuning.rows import SYSTEMS, Key, System
from benchmarks.finetuning.sets import SETS, ProofSet
from bertsmith.tasks.means import difference

_PRECISIONS = ("fp32", "bf16")
_HEAD = (
    "set", "model", "precision", "metric", *SYSTEMS, "difference", "95% interval", "minutes a run",
)  # fmt: skip


def markdown(rows: Mapping[Key, Mapping[str, Any]]) -> str:
    """The table in the order of the sets, without what has begun and has not all its runs."""
    lines = [_line(_HEAD), _line(["---"] * len(_HEAD))]
    for row in SETS:
        for model, precision in itertools.product(row.models, _PRECISIONS):
            names = (row.name, model, precision)
            found = {system: _scores(rows, names, system) for system in SYSTEMS}
            if _is_whole(row, found):
                cells = [*_cells(names, found), _minutes(rows, names)]
                title = f"{row.name} ({row.what})" if row.what else row.name
                lines.append(_line([title, *cells[1:]]))
    return "\n".join(lines)


def _is_whole(row: ProofSet, found: Mapping[System, Mapping[str, list[float]]]) -> bool:
    """Whether all seeds of ours are there, and of `transformers` where it learns the set."""
    owed: dict[System, int] = {"bertsmith": row.seeds}
    if row.with_peer:
        owed["transformers"] = min(row.seeds, row.other_seeds)
    return all(
        max(map(len, found[system].values()), default=0) >= count for system, count in owed.items()
    )


def _scores(
    rows: Mapping[Key, Mapping[str, Any]], names: tuple[str, str, str], system: System
) -> dict[str, list[float]]:
    """Every metric's values, seed by seed, of a set, model and precision."""
    found: dict[str, list[float]] = {}
    for key, row in rows.items():
        if (key.set, key.model, key.precision, key.system) == (*names, system):
            for metric, value in row["scores"].items():
                found.setdefault(metric, []).append(value * _scale(metric, value))
    return found


def _minutes(rows: Mapping[Key, Mapping[str, Any]], names: tuple[str, str, str]) -> str:
    """Of the median run, ours and `transformers`', each beside whatever else the machine did.

    Runs that went on after a stop, whose seconds are of their last part, are left out.
    """
    of_systems: dict[System, list[float]] = {}
    for key, row in rows.items():
        is_whole = not row.get("is_resumed", False)
        if is_whole and (key.set, key.model, key.precision) == names:
            of_systems.setdefault(key.system, []).append(row["seconds"] / 60.0)
    both = [of_systems.get(system, []) for system in ("bertsmith", "transformers")]
    return " / ".join(f"{median(each):.1f}" if each else "-" for each in both)


def _scale(metric: str, value: float) -> float:
    """Spans are scored in percent already."""
    return 1.0 if metric == "exact" or abs(value) > 1.0 else 100.0


def _cells(
    names: tuple[str, str, str], found: Mapping[System, Mapping[str, list[float]]]
) -> list[str]:
    metric = next(iter(next(filter(None, found.values()))))
    values = {system: each.get(metric, []) for system, each in found.items()}
    told = [_told(values[system]) for system in SYSTEMS]
    ours, theirs = values["bertsmith"], values["transformers"]
    if not ours or not theirs:
        return [*names, metric, *told, "", ""]
    gap = difference(ours, theirs)
    is_inside = abs(gap.value) <= gap.half_width  # of a single run nobody knows
    interval = f"+-{gap.half_width:.1f}: {'inside' if is_inside else 'OUTSIDE'}"
    if math.isnan(gap.half_width):
        interval = "runs all equal" if min(len(ours), len(theirs)) > 1 else "one run each"
    return [*names, metric, *told, f"{gap.value:+.1f}", interval]


def _told(values: Sequence[float]) -> str:
    if not values:
        return ""
    if len(values) == 1:
        return f"{values[0]:.1f} (1)"
    return f"{mean(values):.1f} +- {stdev(values):.1f} ({len(values)})"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
