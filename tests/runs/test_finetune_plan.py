"""A plan tells what a run will do, not what was wished for."""

from __future__ import annotations

import pytest

from bertsmith.data.labelled import TaskPlan
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetune_plan import described_steps, told_epochs
from tests.runs.test_finetuning import PLAN


@pytest.mark.parametrize(
    ("batch_size", "epochs", "steps"),
    [
        (5, 3.0, "6 of 5 examples: 3 epochs; seed 0"),
        (4, 3.0, "7 of 4 examples: 3 epochs asked for, 2.8 read; seed 0"),
        (
            16,
            3.0,
            "1 of 16 examples: 3 epochs asked for, 1.6 read, since a step is always of 16 "
            "and there are only 10; seed 0",
        ),
        (
            64,
            3.0,
            "1 of 64 examples: 3 epochs asked for, 6.4 read, since a step is always of 64 "
            "and there are only 10; seed 0",
        ),
    ],
)
def test_the_epochs_that_whole_steps_read_are_told(
    batch_size: int, epochs: float, steps: str
) -> None:
    plan = TaskPlan(labelled=PLAN.labelled, batch_size=batch_size, seed=0)
    lines = described_steps(FinetuneRun(batch_size=batch_size, epochs=epochs), plan, 10)
    assert dict(lines)["steps"] == steps


@pytest.mark.parametrize(
    ("batch_size", "every", "told"),
    [(5, 1.0, "every 1 epochs"), (10, 1.0, "every 1 epochs"), (16, 1.0, "every step"),
     (16, 2.0, "every 2 epochs")],
)  # fmt: skip
def test_evaluations_are_no_more_than_steps(batch_size: int, every: float, told: str) -> None:
    run = FinetuneRun(batch_size=batch_size, evaluate_every=every)
    plan = TaskPlan(labelled=PLAN.labelled, batch_size=batch_size, seed=0)
    evaluation = dict(described_steps(run, plan, 10))["evaluation"]
    assert evaluation == f"{told}; the best on Dev is kept"


def test_a_difference_too_small_to_show_is_not_told() -> None:
    assert told_epochs(3.0, 2.9999) == "3 epochs"
    assert told_epochs(0.1, 0.1) == "0.1 epochs"
