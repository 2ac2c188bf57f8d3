"""What a run takes: memory of its largest micro-batch, disk of what it leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bertsmith import fusion
from bertsmith.recipes.experiments.scales import mini, paper
from bertsmith.recipes.run import Phase
from bertsmith.runs.experiments import cost
from tests.commands.small_reproduction import small_scale

CPU = torch.device("cpu")


def test_the_largest_micro_batch_is_of_the_phase_with_most_tokens() -> None:
    run = paper().base
    assert cost.largest_micro_batch(run) == Phase(
        steps=100_000, sequence_length=512, batch_size=256
    )
    cut = cost.largest_micro_batch(replace(run, accumulation=96))
    assert (cut.sequence_length, cut.batch_size) == (512, 3)
    # Both of mini's hold 4,096 tokens: attention asks for more where they are long.
    assert cost.largest_micro_batch(mini().base).sequence_length == 128


def test_memory_of_a_large_micro_batch_follows_from_two_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = []

    def stepped(_: object, run: object, phase: Phase, __: object) -> tuple[float, int]:
        asked.append((phase.batch_size, phase.sequence_length))
        return 2.0, 1_000 + 10 * phase.batch_size

    monkeypatch.setattr(cost, "_stepped", stepped)
    monkeypatch.setattr(cost, "trainee", lambda *_: None)
    found = cost.measured_cost(mini().base, 8_000, CPU)
    assert asked == [(8, 128), (16, 128)]
    assert (found.peak_bytes, found.is_extrapolated) == (1_000 + 10 * 32, True)
    found = cost.measured_cost(replace(mini().base, accumulation=4), 8_000, CPU)
    assert asked[2:] == [(4, 128), (8, 128)]
    assert (found.peak_bytes, found.is_extrapolated) == (1_080, False)


def test_real_steps_are_measured() -> None:
    with fusion.unfused():
        found = cost.measured_cost(small_scale().base, 300, CPU)
    assert found.flops_per_second > 0
    assert found.peak_bytes > 10**6
    assert not found.is_extrapolated
