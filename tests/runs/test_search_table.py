"""The table of a search tells no interval that cannot be."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from bertsmith.recipes.finetuning import FinetuneRun, Grid, restarts
from bertsmith.runs.search_record import (
    PointEnsemble,
    Results,
    RunResult,
    SearchRecord,
    name_of,
    point_name,
    read_results,
    write_results,
)
from bertsmith.runs.search_table import score_range, table
from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.metrics import Interval
from bertsmith.tasks.squad import SquadConfig
from bertsmith.tasks.task import AnyTask, Classification, MultipleChoice, SpanAnswering

RUN = FinetuneRun(name="glue", batch_size=4, epochs=1.0)
TASK = Classification(scheme=LabelScheme(("a", "b")))
NUMBERS = Classification(scheme=LabelScheme(("score",), "regression"))


def told_of(
    *scores: float,
    failed: frozenset[float] = frozenset(),
    task: AnyTask = TASK,
    ensembles: dict[str, PointEnsemble] | None = None,
) -> list[str]:
    """What the table says of restarts that reached these accuracies."""
    grid = Grid(batch_sizes=(4,), learning_rates=(RUN.optimizer.learning_rate,), epochs=(1.0,))
    record = SearchRecord(
        run=RUN, grid=grid, restarts=len(scores), model_fingerprint="", examples_fingerprint="",
        request={}, command="bertsmith search", versions={},
    )  # fmt: skip
    runs = {
        name_of(run): RunResult(
            name=name_of(run), seed=run.seed, scores={"accuracy": score}, step=1, loss=0.5,
            seconds=1.0, failure="guesses" if score in failed else "",
        )
        for run, score in zip(restarts(RUN, len(scores)), scores, strict=True)
    }  # fmt: skip
    return table(record, Results(runs=runs, ensembles=ensembles or {}), task)


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ((0.4, 0.6), "mean 0.5 of 2 runs, deviation 0.14, best 0.6 of seed 1"),
        ((0.6, 0.6, 0.6), "mean 0.6 of 3 runs, deviation 0, best 0.6 of seed 0"),
        ((0.1, 0.5, 0.9),
         "mean 0.5 of 3 runs, deviation 0.4, best 0.9 of seed 2 (mean, 95%: 0 to 1)"),
        ((0.5, 0.6, 0.7),
         "mean 0.6 of 3 runs, deviation 0.1, best 0.7 of seed 2 (mean, 95%: 0.3516 to 0.8484)"),
    ],
)  # fmt: skip
def test_an_interval_is_told_from_three_runs_on_and_within_the_scores_range(
    scores: tuple[float, ...], told: str
) -> None:
    line = next(line.strip() for line in told_of(*scores) if "mean" in line)
    assert line == f"accuracy, all: {told}"


def test_an_ensemble_tells_no_interval_where_none_is_kept(tmp_path: Path) -> None:
    ensemble = PointEnsemble(
        names=("a", "b"), scores={"accuracy": 1.0, "f1": 0.5},
        intervals={"accuracy": None, "f1": (0.4, 0.6)},
    )  # fmt: skip
    write_results(tmp_path, Results(runs={}, ensembles={point_name(RUN): ensemble}))
    found = read_results(tmp_path).ensembles
    assert found == {point_name(RUN): ensemble}
    lines = [line.strip() for line in told_of(0.5, 0.6, ensembles=found)]
    assert "accuracy, ensemble of 2: 1" in lines
    assert "f1, ensemble of 2: 0.5 (95%: 0.4 to 0.6)" in lines


@pytest.mark.parametrize("with_null", [True, False])
def test_thresholds_that_are_tuned_on_the_same_dev_are_told(with_null: bool) -> None:
    lines = told_of(0.5, 0.6, task=SpanAnswering(config=SquadConfig(with_null=with_null)))
    assert any("threshold of no answer is the best for F1" in line for line in lines) is with_null


def test_the_best_is_the_highest_of_all_that_were_scored() -> None:
    (line,) = [
        line for line in told_of(0.5, 0.6, 0.7, failed=frozenset({0.5})) if "best on" in line
    ]
    assert "; the highest of 3 on the same Dev, so it flatters" in line


@pytest.mark.parametrize(
    ("task", "name", "low", "high"),
    [
        (TASK, "accuracy", 0.0, 1.0),
        (TASK, "f1", 0.0, 1.0),
        (TASK, "matthews", -1.0, 1.0),
        (NUMBERS, "spearman", -1.0, 1.0),
        (MultipleChoice(), "accuracy", 0.0, 1.0),
        (SpanAnswering(), "f1", 0.0, 100.0),
        (object(), "accuracy", -math.inf, math.inf),
    ],
)
def test_a_score_lies_in_the_range_of_its_formula(
    task: AnyTask, name: str, low: float, high: float
) -> None:
    assert score_range(task, name) == Interval(low=low, high=high)
