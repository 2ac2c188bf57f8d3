"""The warning of a loss that rests on the unigram line, and the steps it looks at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import Phase
from bertsmith.runs.directory import Record
from bertsmith.runs.ongoing import OngoingRun
from bertsmith.runs.training import trainee
from bertsmith.train.device import ALONE
from bertsmith.train.loop import Step
from tests.checkpoints.tiny import tiny_config, tiny_tokenizer

LINE = 7.0
COUNT = 40


def ongoing_run(num_steps: int, record_every: int) -> OngoingRun:
    run = replace(
        mini_cpu(),
        model=tiny_config(),
        objectives=("masked_lm",),
        phases=(Phase(steps=num_steps, sequence_length=16, batch_size=2),),
        warmup_steps=0,
        precision="fp32",
        record_every=record_every,
    )
    record = Record(
        run=run,
        corpus=Path("nowhere"),
        corpus_fingerprint="",
        command="",
        request={},
        notes=(),
        seconds_per_step=(),
        peak_bytes=0,
        unigram_entropy=LINE,
        versions={},
    )
    return OngoingRun(
        directory=Path("nowhere"),
        record=record,
        processes=ALONE,
        parts=trainee(run, torch.device("cpu")),
        corpus=None,  # type: ignore[arg-type]  # only an evaluation reads it
        tokenizer=tiny_tokenizer(),
        start=0,
        logs=[],
    )


def step_with(number: int, loss: float) -> Step:
    return Step(
        number=number,
        learning_rate=1e-3,
        tokens=64,
        seconds=0.1,
        skipped=False,
        names=("masked_lm_loss_sum", "masked_lm_correct", "masked_lm_count"),
        measured=torch.tensor([loss, 1.0, loss * COUNT, 0.0, COUNT], dtype=torch.float64),
    )


def warned_at(loss: Callable[[int], float], num_steps: int, record_every: int = 1) -> list[int]:
    """The steps after which a run with these losses is warned."""
    ongoing = ongoing_run(num_steps, record_every)
    found = []
    for number in range(1, num_steps + 1):
        update = step_with(number, loss(number))
        if number % record_every == 0:
            ongoing.record_step(update)
        else:
            ongoing.count_tokens(update)
        if ongoing.stuck_warning(number) is not None:
            found.append(number)
    return found


@pytest.mark.parametrize("record_every", [1, 10])
def test_a_loss_on_the_unigram_line_is_told_once_after_a_quarter_of_the_steps(
    record_every: int,
) -> None:
    assert warned_at(lambda _: 0.99 * LINE, 800, record_every) == [200]


@pytest.mark.parametrize("record_every", [1, 10])
def test_a_loss_under_the_unigram_line_is_not_told(record_every: int) -> None:
    assert warned_at(lambda _: 0.97 * LINE, 800, record_every) == []


@pytest.mark.parametrize("record_every", [1, 10])
def test_nothing_is_told_before_a_hundred_steps_however_few_of_them_are_recorded(
    record_every: int,
) -> None:
    assert warned_at(lambda _: LINE, 120, record_every) == [100]
    assert warned_at(lambda _: LINE, 99, record_every) == []


@pytest.mark.parametrize("record_every", [1, 10])
def test_a_loss_that_left_the_line_a_hundred_steps_ago_is_not_told(record_every: int) -> None:
    def loss(number: int) -> float:
        return LINE if number <= 900 else 0.97 * LINE

    assert warned_at(loss, 4_000, record_every) == []


def test_where_fewer_steps_than_one_in_a_hundred_are_recorded_the_latest_one_counts() -> None:
    assert warned_at(lambda _: LINE, 1_000, 300) == [300]
    assert warned_at(lambda number: LINE if number < 600 else 0.9 * LINE, 2_400, 300) == []


def test_the_warning_names_the_loss_the_line_and_the_option_to_change() -> None:
    ongoing = ongoing_run(1, 200)
    ongoing.record_step(step_with(1, 6.9))
    warning = ongoing.stuck_warning(1)
    assert warning is not None
    for promised in ("(6.900)", "(7.000)", "--optimizer.learning-rate"):
        assert promised in warning
