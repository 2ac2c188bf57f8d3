"""What numbers say of a claim: a difference that seeds alone make decides nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bertsmith.recipes.experiments.experiment import Claim, Experiment, Place, Row
from bertsmith.runs.experiments import verdicts
from bertsmith.runs.experiments.found import Finding
from bertsmith.runs.experiments.verdicts import Verdict

ABOVE, BELOW = Place(row="above", column="score"), Place(row="below", column="score")
CLAIM = Claim(sentence="One is above the other", pairs=((ABOVE, BELOW),))


def experiment(claim: Claim, *, is_lower_better: bool = False) -> Experiment:
    return Experiment(
        name="x",
        title="",
        source="",
        columns=("score",),
        rows=tuple(Row(title=title, cells=(None,)) for title in ("above", "below", "third")),
        claims=(claim,),
        lower_is_better=frozenset({"score"} if is_lower_better else ()),
    )


def verdict(claim: Claim, above: tuple[float, ...], below: tuple[float, ...]) -> Verdict:
    found = {ABOVE: Finding(values=above), BELOW: Finding(values=below)}
    (one,) = verdicts.judged(experiment(claim), claim, found)
    return one.verdict


def test_a_clear_difference_is_reproduced_and_its_reverse_is_not() -> None:
    high, low = (80.0, 80.4, 80.2), (75.0, 75.4, 75.1)
    assert verdict(CLAIM, high, low) == "reproduced"
    assert verdict(CLAIM, low, high) == "not reproduced"


def test_what_seeds_may_make_is_not_decidable() -> None:
    assert verdict(CLAIM, (80.0, 76.0, 84.0), (79.0, 75.0, 83.0)) == "not decidable"
    assert verdict(CLAIM, (80.0,), (70.0, 70.1, 70.2)) == "not decidable"


def test_what_has_not_ended_is_not_measured_whatever_its_first_runs_say() -> None:
    assert verdict(CLAIM, (), (70.0, 70.1, 70.2)) == "not measured"
    high, low = (80.0, 80.4, 80.2), Finding(values=(75.0, 75.4, 75.1))
    for kind in ("higher", "close", "ordered"):
        claim = Claim(sentence="", pairs=CLAIM.pairs, kind=kind, margin=1.0)
        found = {ABOVE: Finding(values=high, gap="3 of 5 runs have ended"), BELOW: low}
        (one,) = verdicts.judged(experiment(claim), claim, found)
        assert one.verdict == "not measured"


def test_close_needs_the_whole_interval_within_the_margin() -> None:
    close = Claim(sentence="", pairs=CLAIM.pairs, kind="close", margin=1.0)
    assert verdict(close, (80.0, 80.1, 80.2), (80.1, 80.2, 80.3)) == "reproduced"
    assert verdict(close, (80.0, 80.1, 80.2), (75.1, 75.2, 75.3)) == "not reproduced"
    # Equal means, but seeds so far apart that nobody knows.
    assert verdict(close, (70.0, 80.0, 90.0), (70.0, 80.0, 90.0)) == "not decidable"


def test_where_lower_is_better_the_lower_one_is_above() -> None:
    found = {ABOVE: Finding(values=(3.0, 3.1, 3.2)), BELOW: Finding(values=(9.0, 9.1, 9.2))}
    table = experiment(CLAIM, is_lower_better=True)
    (one,) = verdicts.judged(table, CLAIM, found)
    assert one.verdict == "reproduced"
    assert one.difference.value == pytest.approx(6.0)


def test_runs_that_are_all_equal_decide_nothing() -> None:
    # Such as those that give one answer to all; of one side too.
    assert verdict(CLAIM, (52.7, 52.7, 52.7), (47.3, 47.3, 47.3)) == "not decidable"
    assert verdict(CLAIM, (52.7, 52.7, 52.7), (51.5, 51.6, 51.7)) == "not decidable"


def test_a_sentence_says_the_verdict_and_the_numbers() -> None:
    found = {ABOVE: Finding(values=(80.0, 80.4, 80.2)), BELOW: Finding(values=(75.0, 75.4, 75.1))}
    told = verdicts.sentence(experiment(CLAIM), CLAIM, found)
    assert told.startswith(
        "One is above the other: **reproduced** at this scale. score, above - below: +5.0 +-"
    )
    missing = verdicts.sentence(experiment(CLAIM), CLAIM, {ABOVE: Finding(), BELOW: Finding()})
    assert missing == "One is above the other: **not measured**."


def test_a_claim_of_several_comparisons_has_one_verdict_and_their_count() -> None:
    third = Place(row="third", column="score")
    claim = Claim(sentence="One is above both", pairs=((ABOVE, BELOW), (ABOVE, third)))
    high, low = Finding(values=(80.0, 80.4, 80.2)), Finding(values=(75.0, 75.4, 75.1))
    for other, expected in (
        (low, "**reproduced** at this scale. "),
        (Finding(), "**not decidable** at this scale (of 2 comparisons 1 reproduced, 1 not mea"),
        (Finding(values=(90.0, 90.1, 90.2)), "**not reproduced** at this scale (of 2 comparisons"),
    ):
        found = {ABOVE: high, BELOW: low, third: other}
        assert f"both: {expected}" in verdicts.sentence(experiment(claim), claim, found)


def test_a_mean_gap_is_compared_with_another_by_one_interval() -> None:
    columns = ("small", "large")
    places = {
        (row, column): Place(row=row, column=column)
        for row in ("above", "below")
        for column in columns
    }
    pairs = {each: ((places["above", each], places["below", each]),) for each in columns}
    claim = Claim(sentence="More", pairs=pairs["small"], against=pairs["large"], kind="more")
    rows = tuple(Row(title=title, cells=(None, None)) for title in ("above", "below"))
    table = Experiment(name="x", title="", source="", columns=columns, rows=rows, claims=(claim,))
    found = {
        places["above", "small"]: Finding(values=(80.0, 80.4, 80.2)),
        places["below", "small"]: Finding(values=(70.0, 70.4, 70.2)),
        places["above", "large"]: Finding(values=(60.0, 60.4, 60.2)),
        places["below", "large"]: Finding(values=(58.0, 58.4, 58.2)),
    }
    (one,) = verdicts.judged(table, claim, found)
    assert one.difference.value == pytest.approx(8.0)
    # Four means of deviation 0.2, three runs each: Student's 95% point of 8 degrees is 2.306.
    assert one.difference.half_width == pytest.approx(2.306 * (4 * 0.04 / 3) ** 0.5, rel=1e-4)
    assert one.verdict == "reproduced"
    told = verdicts.sentence(table, claim, found)
    assert "above - below, mean gap: small less that of large: +8.0 +- 0.5." in told
    found[places["below", "large"]] = Finding()
    (one,) = verdicts.judged(table, claim, found)
    assert one.verdict == "not measured"


def test_single_runs_are_taken_as_they_are_and_that_is_said() -> None:
    claim = Claim(sentence="", pairs=CLAIM.pairs, kind="ordered")
    assert verdict(claim, (80.0,), (70.0, 70.1, 80.2)) == "reproduced"
    assert verdict(claim, (70.0,), (80.0,)) == "not reproduced"
    assert verdict(claim, (), (80.0,)) == "not measured"
    assert verdict(claim, (80.0,), (80.0,)) == "not decidable"
    found = {ABOVE: Finding(values=(3.0,)), BELOW: Finding(values=(9.0,))}
    told = verdicts.sentence(experiment(claim, is_lower_better=True), claim, found)
    assert told.endswith("score, below - above: +6.0 (as the numbers are: a single run).")


def test_perplexities_within_the_margin_are_not_told_apart() -> None:
    claim = Claim(sentence="", pairs=CLAIM.pairs, kind="ordered", margin=0.05)
    table = experiment(claim, is_lower_better=True)

    def of(above: float, below: float) -> Verdict:
        found = {ABOVE: Finding(values=(above,)), BELOW: Finding(values=(below,))}
        (one,) = verdicts.judged(table, claim, found)
        return one.verdict

    assert of(95.5, 100.0) == of(100.0, 95.5) == "not decidable"
    assert (of(94.5, 100.0), of(100.0, 94.5)) == ("reproduced", "not reproduced")
    (one,) = verdicts.judged(table, claim, {ABOVE: Finding(), BELOW: Finding(values=(1.0,))})
    assert one.verdict == "not measured"


@pytest.mark.parametrize("number", [1, 13])
def test_one_of_many_comparisons_refutes_a_claim_only_beyond_an_interval_of_all(
    number: int,
) -> None:
    low, high = Finding(values=(75.0, 76.0, 77.0)), Finding(values=(78.0, 79.0, 80.0))
    claim = Claim(
        sentence="One is above", pairs=((ABOVE, BELOW), *((BELOW, ABOVE),) * (number - 1))
    )
    each = list(verdicts.judged(experiment(claim), claim, {ABOVE: low, BELOW: high}))
    assert each[0].verdict == "not reproduced"
    assert verdicts.overall(each) == ("not reproduced" if number == 1 else "not decidable")
    far = {ABOVE: Finding(values=(45.0, 46.0, 47.0)), BELOW: high}
    assert verdicts.overall(list(verdicts.judged(experiment(claim), claim, far))) == (
        "not reproduced"
    )


def test_a_row_is_compared_with_a_figure_of_the_paper_by_its_own_interval() -> None:
    claim = Claim(sentence="", pairs=CLAIM.pairs, kind="above_paper")
    table = experiment(claim)
    rows = (*table.rows[:1], Row(title="below", cells=(None,), paper=(78.0,)))
    table = replace(table, rows=rows)

    def of(*values: float, **changes: int) -> Verdict:
        found = {ABOVE: Finding(values=values, **changes)}  # type: ignore[arg-type]
        (one,) = verdicts.judged(table, claim, found)
        return one.verdict

    assert of(80.0, 80.4, 80.2) == "reproduced"
    assert of(70.0, 70.4, 70.2) == "not reproduced"
    assert of(70.0, 86.4, 79.2) == "not decidable"
    assert of() == "not measured"
    # An average of columns, one of them equal in all runs, is of many runs and has no interval.
    average = {"num_averaged": 6, "num_runs": 6}
    assert of(80.0, **average) == "not decidable"
    assert of(80.0, 80.4, 80.2, num_runs=3, num_failed=3) == "not decidable"
    assert of(79.0, num_runs=7, is_ensemble=True) == "reproduced"
    assert of(79.0, num_runs=1) == "reproduced"
    assert of(79.0, num_runs=5, num_failed=4, num_lost=4) == "not decidable"  # what is left of five


def test_a_remark_stands_behind_the_verdict() -> None:
    claim = replace(CLAIM, remark="Half of the pairs are random.")
    found = {ABOVE: Finding(values=(80.0,)), BELOW: Finding(values=(70.0,))}
    assert verdicts.sentence(experiment(claim), claim, found).endswith(" random.")


def test_two_rows_that_only_guess_decide_nothing_and_guesses_are_told() -> None:
    def found(num_above: int, num_below: int) -> dict[Place, Finding]:
        return {
            ABOVE: Finding(
                values=(8.0, 8.4, 8.2), num_runs=4, num_failed=num_above + 1, num_lost=1
            ),
            BELOW: Finding(values=(1.0, 1.4, 1.1), num_runs=3, num_failed=num_below),
        }

    (one,) = verdicts.judged(experiment(CLAIM), CLAIM, found(3, 3))
    assert one.verdict == "not decidable"
    for num_above, num_below in ((2, 3), (0, 3)):
        (one,) = verdicts.judged(experiment(CLAIM), CLAIM, found(num_above, num_below))
        assert one.verdict == "reproduced"
    told = verdicts.sentence(experiment(CLAIM), CLAIM, found(2, 3))
    assert told.endswith("5 of the 6 runs behind it are no better than guessing.")
    assert "guessing" not in verdicts.sentence(experiment(CLAIM), CLAIM, found(0, 0))


def test_figures_of_the_paper_are_judged_by_an_interval_of_all_comparisons_too() -> None:
    claim = Claim(sentence="", pairs=CLAIM.pairs * 18, kind="above_paper")
    table = experiment(claim)
    rows = (*table.rows[:1], Row(title="below", cells=(None,), paper=(78.0,)))
    found = {ABOVE: Finding(values=(75.0, 75.5, 76.5), num_runs=3)}
    each = list(verdicts.judged(replace(table, rows=rows), claim, found))
    assert {one.verdict for one in each} == {"not reproduced"}
    assert verdicts.overall(each) == "not decidable"
    assert verdicts.overall(each[:1]) == "not reproduced"
