"""Measuring a fine-tuning run: what its own steps cost, and what follows for all of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.data.labelled import TaskPlan
from bertsmith.fusion import unfused
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.finetune_measuring import FinetuneCost, measure_finetuning
from bertsmith.runs.finetuning import begin_task_model, task_trainee
from bertsmith.train.loop import train
from tests.runs.test_finetuning import CPU, NUM_STEPS, PAIR, PLAN, RUN, loaded_from


def cost(learned: float, read: float) -> FinetuneCost:
    return FinetuneCost(
        tokens_per_second=learned, tokens_read_per_second=read, peak_bytes=3 * 2**29
    )


@pytest.mark.parametrize(
    ("start", "epochs", "seconds"),
    [(0, 3.0, 3 + 4 * 0.5), (3, 3.0, 1.5 + 2 * 0.5), (0, 1.0, 1 + 2 * 0.5)],
)
def test_what_is_left_takes_its_tokens_and_evaluations(
    start: int, epochs: float, seconds: float
) -> None:
    tokens = PLAN.labelled.num_tokens
    assert tokens == sum(len(item.token_ids) for item in PLAN.labelled.items)
    plan = TaskPlan(labelled=PLAN.labelled, batch_size=PLAN.labelled.num_groups // 2, seed=0)
    found = cost(learned=tokens, read=2 * tokens)
    run = FinetuneRun(epochs=epochs)
    assert found.seconds(plan, run, PLAN.labelled, start) == pytest.approx(seconds)


def test_a_step_longer_than_an_epoch_is_evaluated_once() -> None:
    tokens = PLAN.labelled.num_tokens
    plan = TaskPlan(labelled=PLAN.labelled, batch_size=64, seed=0)
    left = cost(learned=tokens, read=2 * tokens).seconds(plan, FinetuneRun(), PLAN.labelled, 0)
    assert plan.num_steps(FinetuneRun().epochs) == 1
    assert left == pytest.approx(6.4 + 2 * 0.5)  # read by the step, and at the end once more


def test_a_cost_is_told_with_its_rate_and_memory() -> None:
    assert cost(12_345.6, 1.0).told(100) == "2 min at 12,346 tokens/s (measured), 1.5 GiB of memory"


@pytest.mark.parametrize("accumulation", [1, 4])
def test_measuring_changes_no_bit_of_the_run(tmp_path: Path, accumulation: int) -> None:
    run = replace(RUN, accumulation=accumulation)
    weights: list[dict[str, torch.Tensor]] = []
    for is_measured in (False, True):
        model, _ = begin_task_model(loaded_from(tmp_path / str(is_measured)), PAIR, run)
        with unfused():
            if is_measured:
                found = measure_finetuning(run, model, PLAN, PLAN.labelled, CPU)
                assert min(found.tokens_per_second, found.tokens_read_per_second) > 0
                assert found.peak_bytes > 2**20
            parts = task_trainee(run, model, NUM_STEPS, CPU)
            steps = map(PLAN.step, range(NUM_STEPS))
            updates = train(
                parts.learner, parts.optimizer, parts.schedule, steps, accumulation=accumulation
            )
            assert len(list(updates)) == NUM_STEPS
        weights.append(parts.weights())
    for name, weight in weights[0].items():
        assert torch.equal(weight, weights[1][name]), name
