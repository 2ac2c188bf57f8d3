"""The paper's claims and what was found -> reproduced, not reproduced, or not decidable.

Two rows differ where the difference of their means lies outside its own 95% interval (Welch 1947,
from the deviations over seeds of fine-tuning; each model is pre-trained once). What one seed says
decides nothing, and so do runs that are all equal, which do not say how far others would be, and
two rows that are no better than guessing. Two rows are close where the whole interval lies within
the margin, and are not where it lies wholly outside. A claim is reproduced where all its
comparisons are, and is not where one is not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bertsmith.recipes.experiments.experiment import Claim, Experiment, Place
from bertsmith.runs.experiments.found import Findings
from bertsmith.tasks.means import Difference, difference

Verdict = Literal["reproduced", "not reproduced", "not decidable"]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One comparison of a claim."""

    first: Place
    second: Place
    difference: Difference
    verdict: Verdict


def judged(experiment: Experiment, claim: Claim, found: Findings) -> Iterator[Judged]:
    """Every comparison that the claim makes."""
    for first, second in claim.pairs:
        gap = difference(found[first].values, found[second].values)
        if first.column in experiment.lower_is_better:
            gap = Difference(value=-gap.value, half_width=gap.half_width)
        verdict = _higher(gap) if claim.kind == "higher" else _close(gap, claim.margin)
        if found[first].is_guessing and found[second].is_guessing:
            verdict = "not decidable"
        yield Judged(first=first, second=second, difference=gap, verdict=verdict)


def overall(each: Sequence[Judged]) -> Verdict:
    """Of all comparisons of a claim."""
    verdicts = {one.verdict for one in each}
    if "not reproduced" in verdicts:
        return "not reproduced"
    return "not decidable" if "not decidable" in verdicts else "reproduced"


def sentence(experiment: Experiment, claim: Claim, found: Findings) -> str:
    """The claim, what becomes of it at this scale, and the numbers."""
    each = list(judged(experiment, claim, found))
    counts = Counter(one.verdict for one in each)
    told = f"**{overall(each)}** at this scale"
    if len(counts) > 1:
        kinds = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
        told += f" (of {len(each)} comparisons {kinds})"
    margin = f" (within {claim.margin:g} points)" if claim.kind == "close" else ""
    numbers = "; ".join(_told(one) for one in each)
    remark = f" {claim.remark}" if claim.remark else ""
    return f"{claim.sentence}{margin}: {told}. {numbers}.{_guesses(each, found)}{remark}"


def _guesses(each: Sequence[Judged], found: Findings) -> str:
    """How many of the runs compared have learned nothing; empty for none."""
    places = {place for one in each for place in (one.first, one.second)}
    num_guessing = sum(found[place].num_guessing for place in places)
    num_runs = sum(len(found[place].values) for place in places)
    if not num_guessing:
        return ""
    return f" {num_guessing} of the {num_runs} runs behind it are no better than guessing."


def _higher(gap: Difference) -> Verdict:
    if math.isnan(gap.value) or math.isnan(gap.half_width):
        return "not decidable"
    if gap.value > gap.half_width:
        return "reproduced"
    return "not reproduced" if gap.value < -gap.half_width else "not decidable"


def _close(gap: Difference, margin: float) -> Verdict:
    if math.isnan(gap.value) or math.isnan(gap.half_width):
        return "not decidable"
    if abs(gap.value) + gap.half_width <= margin:
        return "reproduced"
    return "not reproduced" if abs(gap.value) - gap.half_width > margin else "not decidable"


def _told(one: Judged) -> str:
    where = f"{one.first.column}, {one.first.row} - {one.second.row}"
    if math.isnan(one.difference.value):
        return f"{where}: not measured"
    if math.isnan(one.difference.half_width):
        return f"{where}: {one.difference.value:+.1f} (no interval: single runs, or equal ones)"
    return f"{where}: {one.difference.value:+.1f} +- {one.difference.half_width:.1f}"
