"""The paper's claims and what was found -> reproduced, not reproduced, not decidable, not measured.

Two rows differ where the difference of their means lies outside its own 95% interval (Welch 1947,
from the deviations over seeds of fine-tuning). It is a difference of these two models: how far
another pre-training of the same kind would be is in no interval. What one seed says decides
nothing, and so do runs of a row that are all equal, which do not say how far others would be, and
two rows that are no better than guessing. A cell of which not all runs have ended is not measured.
Two rows are close where the whole interval lies within the margin, and are not where it lies wholly
outside. A mean gap of several columns is compared with that of others by the same interval, and a
row with a figure of the paper by its own. An ensemble and a perplexity are of one run: they are
taken as the numbers are, and that is said; two perplexities within the margin are not told apart. A
claim is reproduced where all its comparisons are. It is not where one is not, by an interval that
holds for all of them at once (Bonferroni); where one is not by its own interval alone, and where
some are reproduced and the others not measured, it is not decidable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from bertsmith.recipes.experiments.experiment import Claim, Experiment, Place
from bertsmith.runs.experiments.found import Findings
from bertsmith.tasks.means import Difference, combination, difference

Verdict = Literal["reproduced", "not reproduced", "not decidable", "not measured"]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One comparison of a claim."""

    where: str
    """What is compared with what."""
    places: tuple[Place, ...]
    """Of ours."""
    difference: Difference
    verdict: Verdict
    is_of_single_runs: bool = False
    """Whether it goes by the numbers as they are."""
    margin: float = 0.0
    """How far apart two may be and still be close."""

    def is_refuted_among(self, number: int) -> bool:
        """Whether it is not reproduced by an interval that holds for so many comparisons."""
        if self.verdict != "not reproduced" or self.is_of_single_runs:
            return self.verdict == "not reproduced"
        gap = self.difference
        return abs(gap.value) - gap.half_width_of(number) > self.margin


def judged(experiment: Experiment, claim: Claim, found: Findings) -> Iterator[Judged]:
    """Every comparison that the claim makes."""
    if claim.kind == "more":
        yield _judged_together(experiment, claim, found)
    elif claim.kind == "above_paper":
        for pair in claim.pairs:
            yield _judged_by_figure(experiment, *pair, found)
    else:
        for pair in claim.pairs:
            yield _judged_pair(experiment, claim, *pair, found)


def overall(each: Sequence[Judged]) -> Verdict:
    """Of all comparisons of a claim."""
    verdicts = {one.verdict for one in each}
    if verdicts <= {"not measured"}:
        return "not measured"
    if any(one.is_refuted_among(len(each)) for one in each):
        return "not reproduced"
    return "reproduced" if verdicts == {"reproduced"} else "not decidable"


def sentence(experiment: Experiment, claim: Claim, found: Findings) -> str:
    """The claim, what becomes of it at this scale, and the numbers."""
    each = list(judged(experiment, claim, found))
    verdict = overall(each)
    if verdict == "not measured":
        return f"{claim.sentence}: **not measured**."
    counts = Counter(one.verdict for one in each)
    told = f"**{verdict}** at this scale"
    if len(counts) > 1:
        kinds = ", ".join(f"{number} {verdict}" for verdict, number in counts.most_common())
        told += f" (of {len(each)} comparisons {kinds})"
    margin = f" (within {claim.margin:g} points)" if claim.kind == "close" else ""
    numbers = "; ".join(_told(one) for one in each)
    remark = f" {claim.remark}" if claim.remark else ""
    return f"{claim.sentence}{margin}: {told}. {numbers}.{_guesses(each, found)}{remark}"


def _judged_pair(
    experiment: Experiment, claim: Claim, first: Place, second: Place, found: Findings
) -> Judged:
    """One row and another."""
    places = (first, second)
    if first.column in experiment.lower_is_better:
        places = (second, first)  # so that more is better in what is told, too
    gap = difference(*(found[place].settled for place in places))
    if claim.kind == "ordered":
        alike = claim.margin * max(found[first].mean, found[second].mean)
        verdict = "not decidable" if abs(gap.value) <= alike else _ordered(gap)
    else:
        verdict = _higher(gap) if claim.kind == "higher" else _close(gap, claim.margin)
    if verdict != "not measured" and found[first].is_guessing and found[second].is_guessing:
        verdict = "not decidable"
    return Judged(
        where=_where(*places),
        places=places,
        difference=gap,
        verdict=verdict,
        is_of_single_runs=claim.kind == "ordered",
        margin=claim.margin if claim.kind == "close" else 0.0,
    )


def _judged_by_figure(
    experiment: Experiment, first: Place, second: Place, found: Findings
) -> Judged:
    """A row of ours and a figure of the paper, which has no interval."""
    figure = experiment.figure_of_paper(second)
    ours = found[first]
    gap = Difference(
        value=ours.mean - figure if ours.settled and figure is not None else math.nan,
        half_width=ours.half_width,
        freedom=ours.freedom,
    )
    is_single = ours.num_runs == 1 or ours.is_ensemble
    verdict = _ordered(gap) if is_single else _higher(gap)
    return Judged(
        where=f"{first.column}, {first.row} - the paper's {second.row} ({second.column} {figure})",
        places=(first,),
        difference=gap,
        verdict="not decidable" if ours.settled and ours.is_guessing else verdict,
        is_of_single_runs=is_single,
    )


def _judged_together(experiment: Experiment, claim: Claim, found: Findings) -> Judged:
    """The mean gap of some columns, and that of others."""
    terms = [
        (sign / len(pairs), found[place].settled)
        for side, pairs in ((1.0, claim.pairs), (-1.0, claim.against))
        for pair in pairs
        for sign, place in zip((side, -side), pair, strict=True)
    ]
    gap, pairs = combination(terms), (*claim.pairs, *claim.against)
    places = tuple(dict.fromkeys(place for pair in pairs for place in pair))
    is_guess = all(found[place].settled and found[place].is_guessing for place in places)
    first, second = claim.pairs[0]
    sides = (", ".join(one.column for one, _ in each) for each in (claim.pairs, claim.against))
    return Judged(
        where=f"{first.row} - {second.row}, mean gap: {' less that of '.join(sides)}",
        places=places,
        difference=gap,
        verdict="not decidable" if is_guess else _higher(gap),
    )


def _where(first: Place, second: Place) -> str:
    if first.column == second.column:
        return f"{first.column}, {first.row} - {second.row}"
    return f"{first.row}, {first.column} - {second.row}, {second.column}"


def _guesses(each: Sequence[Judged], found: Findings) -> str:
    """How many of the runs compared have learned nothing; empty for none."""
    places = {p for one in each if one.verdict != "not measured" for p in one.places}
    num_guessing = sum(found[place].num_guessing for place in places)
    num_runs = sum(found[place].num_valued for place in places)
    if not num_guessing:
        return ""
    return f" {num_guessing} of the {num_runs} runs behind it are no better than guessing."


def _higher(gap: Difference) -> Verdict:
    if math.isnan(gap.value):
        return "not measured"
    if math.isnan(gap.half_width):
        return "not decidable"
    if gap.value > gap.half_width:
        return "reproduced"
    return "not reproduced" if gap.value < -gap.half_width else "not decidable"


def _ordered(gap: Difference) -> Verdict:
    """By the numbers as they are: of single runs nobody knows more."""
    if math.isnan(gap.value):
        return "not measured"
    if not gap.value:
        return "not decidable"
    return "reproduced" if gap.value > 0 else "not reproduced"


def _close(gap: Difference, margin: float) -> Verdict:
    if math.isnan(gap.value):
        return "not measured"
    if math.isnan(gap.half_width):
        return "not decidable"
    if abs(gap.value) + gap.half_width <= margin:
        return "reproduced"
    return "not reproduced" if abs(gap.value) - gap.half_width > margin else "not decidable"


def _told(one: Judged) -> str:
    if math.isnan(one.difference.value):
        return f"{one.where}: not measured"
    if one.is_of_single_runs:
        return f"{one.where}: {one.difference.value:+.1f} (as the numbers are: a single run)"
    if math.isnan(one.difference.half_width):
        return f"{one.where}: {one.difference.value:+.1f} (no interval: single runs, or equal ones)"
    return f"{one.where}: {one.difference.value:+.1f} +- {one.difference.half_width:.1f}"
