import numpy as np
import pytest

from bertsmith.train.schedule import ScheduleConfig


def original_rate(global_step: int, warmup: int, total: int) -> float:
    """google-research/bert: polynomial decay of power 1 from the start, overruled by warm-up."""
    decayed = 1.0 - min(global_step, total) / total
    return global_step / warmup if global_step < warmup else decayed


@pytest.mark.parametrize(("warmup", "total"), [(10, 100), (0, 7), (1, 5), (100, 100)])
def test_rates_are_the_originals_at_every_step(warmup: int, total: int) -> None:
    schedule = ScheduleConfig(total_steps=total, warmup_steps=warmup)
    rates = [schedule.rate(finished) for finished in range(total + 3)]
    np.testing.assert_array_equal(
        rates, [original_rate(step, warmup, total) for step in range(total + 3)]
    )


def test_first_update_has_rate_zero() -> None:
    assert ScheduleConfig(total_steps=1000, warmup_steps=10).rate(0) == 0.0


def test_a_small_drop_stands_at_the_end_of_warm_up() -> None:
    schedule = ScheduleConfig(total_steps=1000, warmup_steps=10)
    assert schedule.rate(9) == 0.9
    assert schedule.rate(10) == 0.99


def test_rate_is_zero_at_and_beyond_the_end() -> None:
    schedule = ScheduleConfig(total_steps=1000, warmup_steps=10)
    assert schedule.rate(999) > 0.0
    assert schedule.rate(1000) == schedule.rate(5000) == 0.0


def test_warm_up_as_a_share_is_rounded_down() -> None:
    assert ScheduleConfig(total_steps=109, warmup_share=0.1).num_warmup_steps == 10


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="exactly one of warmup_steps and warmup_share"):
        ScheduleConfig(total_steps=10)
    with pytest.raises(ValueError, match="exactly one of warmup_steps and warmup_share"):
        ScheduleConfig(total_steps=10, warmup_steps=1, warmup_share=0.1)
    with pytest.raises(ValueError, match="found 11 warm-up steps, expected 0 to total_steps = 10"):
        ScheduleConfig(total_steps=10, warmup_steps=11)
    with pytest.raises(ValueError, match="total_steps must be at least 1, found 0"):
        ScheduleConfig(total_steps=0, warmup_steps=0)
