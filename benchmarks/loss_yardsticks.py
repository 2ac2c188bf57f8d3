"""Two systems' losses, step by step -> how near they are, by every yardstick of `loss_parity`.

It trains nothing and reads nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FLOAT64_BOUND = 1e-6
FIRST_STEP_BOUND = 1e-5


@dataclass(frozen=True, kw_only=True)
class Exact:
    """Two curves that must be one."""

    largest_difference: float
    at_step: int
    holds: bool


@dataclass(frozen=True, kw_only=True)
class Band:
    """A curve beside several of the peer."""

    first_difference: float
    """From the farthest of the peer's runs, at the first step."""
    differences: list[float]
    """From the nearest of the peer's runs, at every step."""
    widths: list[float]
    """The widest gap between the peer's runs so far, at every step."""
    steps_inside: int
    """Steps whose difference is at most the width, or two units in the loss's last place; the first
    where it is within the first step's bound."""
    holds: bool


@dataclass(frozen=True, kw_only=True)
class StricterCounts:
    """Steps at which our loss is inside by stricter yardsticks than the band."""

    steps_between: int
    """Strictly between the lowest and the highest of the peer's runs."""
    steps_in_own_gap: int
    """As near to one of the peer's runs as these are to each other at the same step."""
    steps_in_running_gap: int
    """As near as the peer's runs ever parted so far: the band without its floor."""


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How far a float32 curve strays from the curve without rounding, over all steps."""

    mean: float
    largest: float


def compare_exactly(ours: Sequence[float], theirs: Sequence[float]) -> Exact:
    """The largest difference of two curves against the float64 bound."""
    differences = np.abs(np.subtract(ours, theirs))
    worst = int(differences.argmax())
    return Exact(
        largest_difference=float(differences[worst]),
        at_step=worst + 1,
        holds=bool(differences[worst] <= FLOAT64_BOUND),
    )


def compare_with_band(ours: Sequence[float], peers: Sequence[Sequence[float]]) -> Band:
    """Our curve's distance from the nearest of the peer's runs against the gap between these.

    Raises ValueError for fewer than two of the peer's runs.
    """
    if len(peers) < 2:
        raise ValueError(f"a band needs at least 2 runs of the peer, found {len(peers)}")
    runs = np.asarray(peers, dtype=np.float64)  # (runs, steps)
    distances = np.abs(runs - np.asarray(ours))  # (runs, steps)
    first_difference, differences = float(distances[:, 0].max()), distances.min(axis=0)
    widths = np.maximum.accumulate(np.ptp(runs, axis=0))  # (steps,)
    unit = np.spacing(runs.max(axis=0).astype(np.float32))
    inside = differences <= np.maximum(widths, 2 * unit)
    inside[0] = first_difference <= FIRST_STEP_BOUND
    return Band(
        first_difference=first_difference,
        differences=differences.tolist(),
        widths=widths.tolist(),
        steps_inside=int(np.count_nonzero(inside)),
        holds=bool(inside.all()),
    )


def stricter_counts(ours: Sequence[float], peers: Sequence[Sequence[float]]) -> StricterCounts:
    """How often our curve is inside by the stricter yardsticks; no step has a bound of its own."""
    curve, runs = np.asarray(ours), np.asarray(peers, dtype=np.float64)  # (steps,), (runs, steps)
    differences, gaps = np.abs(runs - curve).min(axis=0), np.ptp(runs, axis=0)  # (steps,)
    is_between = (runs.min(axis=0) < curve) & (curve < runs.max(axis=0))
    return StricterCounts(
        steps_between=int(np.count_nonzero(is_between)),
        steps_in_own_gap=int(np.count_nonzero(differences <= gaps)),
        steps_in_running_gap=int(np.count_nonzero(differences <= np.maximum.accumulate(gaps))),
    )


def rounding(curve: Sequence[float], exact: Sequence[float]) -> Rounding:
    """A float32 curve beside the float64 curve of the same training."""
    distances = np.abs(np.subtract(curve, exact))
    return Rounding(mean=float(distances.mean()), largest=float(distances.max()))
