"""What grows, and how far: each axis varies one thing from a start, and fits an exponent to it.

It does not know how a point is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from bertsmith.model.config import MINI, BertConfig, sized

Work = Literal["training", "inference"]


@dataclass(frozen=True, kw_only=True)
class ModelPoint:
    """A model at work, on full sequences of drawn tokens."""

    work: Work
    config: BertConfig
    batch: int
    length: int


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One thing that grows."""

    unit: str
    """What its values count."""
    values: tuple[int, ...]
    at: Callable[[int], ModelPoint]
    """The point of a value."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """What one value cost."""

    value: float
    seconds: float
    peak_bytes: int
    """The most that its processes ever held, together."""


TRAINING = ModelPoint(work="training", config=MINI, batch=32, length=128)
INFERENCE = replace(TRAINING, work="inference")
START = "mini, 32 x 128"

AXES: dict[str, Axis] = {
    "training, batch": Axis(
        unit="sequences a step",
        values=(4, 8, 16, 32, 64, 128),
        at=lambda value: replace(TRAINING, batch=value),
    ),
    "training, length": Axis(
        unit="tokens a sequence",
        values=(64, 128, 256, 512),
        at=lambda value: replace(TRAINING, length=value),
    ),
    "training, layers": Axis(
        unit="layers",
        values=(1, 2, 4, 8, 16),
        at=lambda value: replace(TRAINING, config=replace(MINI, num_hidden_layers=value)),
    ),
    "training, hidden size": Axis(
        unit="hidden size",
        values=(128, 256, 512, 768),
        at=lambda value: replace(TRAINING, config=sized(MINI.num_hidden_layers, value)),
    ),
    "training, vocabulary": Axis(
        unit="entries",
        values=(4_000, 8_000, 16_000, 30_522, 64_000, 128_000),
        at=lambda value: replace(TRAINING, config=replace(MINI, vocab_size=value)),
    ),
    "inference, batch": Axis(
        unit="texts",
        values=(1, 2, 8, 32, 128),
        at=lambda value: replace(INFERENCE, batch=value),
    ),
    "inference, length": Axis(
        unit="tokens a text",
        values=(16, 32, 64, 128, 256, 512),
        at=lambda value: replace(INFERENCE, length=value),
    ),
}
MEGABYTES = (1, 10, 100, 1000)
CORPUS_AXES = ("corpus, building", "corpus, opening")
"""Against megabytes of text."""


def slope(values: Sequence[float], costs: Sequence[float]) -> float | None:
    """The exponent e of cost ~ value^e, fitted by least squares of logarithms.

    None for fewer than two values, and where something cost nothing.
    """
    if len(values) < 2 or min(costs) <= 0:
        return None
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


def row_of(name: str, unit: str, start: str, points: Sequence[Point]) -> dict[str, Any]:
    """What is appended for an axis: its points, and the exponents of time and memory.

    Start-up hides how small things grow, so beside the exponent of all points stands that of the
    two largest.
    """
    points = sorted(points, key=lambda point: point.value)
    values = [point.value for point in points]
    costs: Mapping[str, Sequence[float]] = {
        "seconds": [point.seconds for point in points],
        "peak_bytes": [float(point.peak_bytes) for point in points],
    }
    return {
        "axis": name,
        "unit": unit,
        "start": start,
        "points": [asdict(point) for point in points],
        "exponents": {cost: slope(values, each) for cost, each in costs.items()},
        "last_exponents": {cost: slope(values[-2:], each[-2:]) for cost, each in costs.items()},
    }


def show(row: Mapping[str, Any]) -> str:
    """The row as a table."""
    lines = [f"{row['axis']} ({row['start']})"]
    for point in row["points"]:
        lines.append(
            f"{point['value']:>9,.5g} {row['unit']} {point['seconds']:10.3f} s "
            f"{point['peak_bytes'] / 2**20:8,.0f} MiB"
        )
    for words, exponents in (("all", row["exponents"]), ("the last two", row["last_exponents"])):
        told = ", ".join(
            f"{cost} ~ value^{each:.2f}" for cost, each in exponents.items() if each is not None
        )
        lines.append(f"          {words}: {told or 'too few points for an exponent'}")
    return "\n".join(lines)
