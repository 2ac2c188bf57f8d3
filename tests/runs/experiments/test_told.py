"""What a person reads of a table: every gap with its rows, every failure, the paper's digits."""

from __future__ import annotations

from dataclasses import replace

from bertsmith.recipes.experiments.experiment import Experiment, Place, Row
from bertsmith.recipes.experiments.scales import tiny
from bertsmith.runs.experiments import told
from bertsmith.runs.experiments.found import Finding

TABLE = Experiment(
    name="x",
    title="",
    source="Table 0",
    columns=("accuracy", "perplexity"),
    rows=(
        Row(title="ours", cells=(None, None)),
        Row(title="other", cells=(None, None), paper=(80.0, 5.84)),
    ),
    lower_is_better=frozenset({"perplexity"}),
)
SOUND = Finding(values=(1.0, 2.0), num_runs=2)


def found(**gaps: Finding) -> dict[Place, Finding]:
    """Sound cells, but for those that are named `row_column`."""
    return {
        Place(row=row.title, column=column): gaps.get(f"{row.title}_{column}", SOUND)
        for row in TABLE.rows
        for column in TABLE.columns
    }


def test_a_gap_of_all_rows_is_told_by_its_column_and_of_some_by_row() -> None:
    gap = Finding(gap="there is no file")
    all_rows = found(ours_accuracy=gap, other_accuracy=gap)
    assert told.gaps(all_rows) == ["accuracy: there is no file"]
    assert told.gaps(found(ours_accuracy=gap)) == ["ours (accuracy): there is no file"]


def test_failed_runs_are_told_by_how_they_failed() -> None:
    finding = Finding(values=(1.0, 2.0, 3.0, 4.0), num_runs=5, num_failed=2, num_lost=1)
    assert told.gaps(found(ours_accuracy=finding)) == []
    (line,) = told.failures(found(ours_accuracy=finding))
    assert line.endswith("2 of 5 runs failed: 1 no better than guessing and 1 without a number")


def test_figures_have_the_papers_digits() -> None:
    ours = Row(title="ours", cells=(None, None), paper=(35.0, 3.99))
    (_, paper) = told.table(replace(TABLE, rows=(ours,)), {})
    assert paper[1:] == ["35.0", "3.99"]
    cell = tiny().score(tiny().bert(), "SST-2")
    rows = (Row(title="ours", cells=(cell, cell)),)
    (_, mine) = told.table(replace(TABLE, rows=rows), found())
    assert mine[1:] == ["1.5 +- 0.7 (2)", "1.50 +- 0.71 (2)"]


def test_half_the_95_percent_interval_stands_beside_the_deviation() -> None:
    cell = tiny().score(tiny().bert(), "SST-2")
    rows = (Row(title="ours", cells=(cell, cell)),)
    three = found(ours_accuracy=Finding(values=(70.0, 74.0, 72.0)))
    (_, ours) = told.table(replace(TABLE, rows=rows), three)
    assert ours[1] == "72.0 +- 2.0 (3), 95%: 5.0"  # 4.303 x 2 / sqrt 3


def test_the_report_says_what_the_spread_is_of() -> None:
    report = told.markdown(TABLE, found(), [])
    assert "seeds of fine-tuning" in report
    assert "begin with one pre-trained model" in report


def test_columns_that_have_no_room_stand_below_with_their_rows_titles() -> None:
    whole = told.lines(TABLE, found(), 1000)
    assert len(whole) == len(told.table(TABLE, found()))
    narrow = told.lines(TABLE, found(), len(whole[0]) - 1)
    halves = [narrow[: len(whole)], narrow[len(whole) + 1 :]]
    assert narrow[len(whole)] == ""
    for line, *parts in zip(whole, *halves, strict=True):
        title = line.split("  ")[0]
        assert all(part.startswith(title) for part in parts)
        assert line.split() == [*parts[0].split(), *parts[1].removeprefix(title).split()]
    assert max(map(len, narrow)) < len(max(whole, key=len))
    assert told.lines(TABLE, found(), 1) == narrow  # no column is cut
