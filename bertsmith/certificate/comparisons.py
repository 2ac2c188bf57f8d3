"""Numbers held against numbers, or counts against counts -> a row of the certificate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bertsmith.certificate.rows import Row, outcome

Numbers = npt.NDArray[np.floating]

DEVIATIONS = 5.0
"""How far a sample may lie from its distribution: once in millions, by chance."""


def compared(
    name: str,
    found: npt.ArrayLike,
    expected: npt.ArrayLike,
    *,
    tolerance: float,
    reference: str,
    against: str = "the golden values",
) -> Row:
    """The row of a comparison of numbers: the largest difference may be `tolerance`.

    It is relative to the largest expected number where that is above 1. Other shapes and numbers
    that are not finite fail.
    """
    ours, theirs = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if ours.shape == theirs.shape:
        scale = max(1.0, float(np.abs(theirs).max(initial=0.0)))
        distance = float(np.abs(ours - theirs).max(initial=0.0)) / scale
        kind = "number" if ours.size == 1 else "numbers"
        text = f"{ours.size:,} {kind}, off by {distance:.1e}"
    else:
        distance, text = np.inf, f"shape {ours.shape} instead of {theirs.shape}"
    return Row(
        name=name,
        status=outcome(distance <= tolerance),  # False for a NaN too
        found=text,
        expected=f"{against} within {tolerance:.0e}",
        reference=reference,
    )


def alike(name: str, counts: npt.ArrayLike, golden: npt.ArrayLike, *, reference: str) -> Row:
    """The row of two samples' counts, which must be of one distribution to five deviations.

    By the chi square of two samples; a kind that only one of them has may have come by chance, but
    hardly often.
    """
    ours, theirs = np.asarray(counts, np.float64), np.asarray(golden, np.float64)
    seen = ours + theirs > 0
    ratio = np.sqrt(ours.sum() / theirs.sum())
    terms = (ours[seen] / ratio - theirs[seen] * ratio) ** 2 / (ours + theirs)[seen]
    freedom = max(int(seen.sum()) - 1, 1)
    deviations = (terms.sum() - freedom) / np.sqrt(2.0 * freedom)
    return Row(
        name=name,
        status=outcome(bool(deviations <= DEVIATIONS)),
        found=f"{ours.sum():,.0f} draws, chi square {deviations:+.1f} deviations from its mean",
        expected=f"the golden counts within {DEVIATIONS:.0f} deviations",
        reference=reference,
    )
