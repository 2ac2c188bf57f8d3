from dataclasses import replace

import pytest

from benchmarks.batches import training_flops
from benchmarks.turns import WARM_UP, Taken, figures
from bertsmith.model.config import sized

CONFIG = replace(sized(2, 32, 2), vocab_size=1200)


def taken(seconds, lengths):
    return Taken(seconds=seconds, loss=seconds, peak_bytes=int(seconds), lengths=lengths)


def test_a_rate_is_the_median_of_real_tokens_after_the_warm_up():
    turns = [taken(100.0, (9,))] * WARM_UP
    turns += [taken(1.0, (10, 20)), taken(2.0, (10, 10)), taken(4.0, (20, 20))]
    row = figures({"bertsmith": turns}, CONFIG, ceiling=training_flops(CONFIG, [10, 10]) / 2)
    assert row["tokens_per_second"] == {"bertsmith": 10.0}
    assert row["mean_tokens"] == 15
    assert row["first_step_seconds"] == {"bertsmith": 100.0}
    assert row["peak_bytes"] == {"bertsmith": 4}
    assert row["losses"] == {"bertsmith": [100.0, 100.0, 1.0, 2.0, 4.0]}
    assert row["fraction_of_matrix_rate"] == {"bertsmith": pytest.approx(1.0, rel=0.05)}


def test_without_any_system_there_are_no_figures():
    row = figures({}, CONFIG, ceiling=1.0)
    assert row["tokens_per_second"] == {}
    assert row["mean_tokens"] is None
