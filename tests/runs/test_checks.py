"""What would fail late is refused at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bertsmith.recipes.pretraining import mini_cpu, paper_base
from bertsmith.runs.checks import check_machine
from bertsmith.train import device
from bertsmith.train.device import ALONE, Processes


def test_a_run_that_can_start_gets_its_device() -> None:
    assert check_machine(mini_cpu(), "cpu", ALONE) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="device cuda:0 is not here"):
        check_machine(mini_cpu(), "cuda", ALONE)


def test_a_precision_that_the_device_has_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "multiplies_float16", lambda: False)
    with pytest.raises(ValueError, match="fp16 needs an NVIDIA"):
        check_machine(replace(mini_cpu(), precision="fp16"), "cpu", ALONE)


def test_objectives_against_the_direction_are_refused() -> None:
    run = mini_cpu()
    run = replace(run, model=replace(run.model, direction="left_to_right"))
    with pytest.raises(ValueError, match="masked_lm needs direction 'bidirectional'"):
        check_machine(run, "cpu", ALONE)


def test_a_step_that_cannot_be_cut_is_refused() -> None:
    run = replace(paper_base(), accumulation=40)
    with pytest.raises(ValueError, match="256 sequences cannot be cut into 320 micro-batches"):
        check_machine(run, "cpu", Processes(world_size=8))
    assert check_machine(replace(run, accumulation=32), "cpu", Processes(world_size=8))
