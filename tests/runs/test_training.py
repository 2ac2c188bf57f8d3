from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertsmith.data.config import Masking
from bertsmith.native import multiplies_float16
from bertsmith.recipes.pretraining import mini_cpu, paper_base
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.training import (
    Trainee,
    begin_phase,
    held_out_rules,
    save_checkpoint,
    trainee,
)
from bertsmith.train.config import Precision
from bertsmith.train.state import load_state
from tests.checkpoints.tiny import tiny_config, tiny_tokenizer

needs_fp16 = pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
LENGTHS = (8, 16, 20)
STEPS = 3
POSITIONS = "bert.embeddings.position.weight"


def run_of(precision: Precision = "fp32", *, tiles: bool = True) -> PretrainRun:
    """Three phases of growing length on 24 positions."""
    phases = tuple(Phase(steps=STEPS, sequence_length=length, batch_size=2) for length in LENGTHS)
    return replace(
        mini_cpu(),
        model=tiny_config(),
        phases=phases,
        warmup_steps=1,
        precision=precision,
        tile_positions=tiles,
    )


def begun(run: PretrainRun) -> Trainee:
    return trainee(run, torch.device("cpu"))


def tables(trained: Trainee) -> tuple[Tensor, Tensor]:
    """The positions that compute, and their float32 masters."""
    return trained.model.state_dict()[POSITIONS], trained.optimizer.masters()[POSITIONS]


@pytest.mark.parametrize("precision", ["fp32", "bf16", pytest.param("fp16", marks=needs_fp16)])
def test_new_positions_of_a_longer_phase_begin_as_copies(precision: Precision) -> None:
    run = run_of(precision)
    trained = begun(run)
    first = [table.clone() for table in tables(trained)]
    begin_phase(run, STEPS, trained)
    for table, before in zip(tables(trained), first, strict=True):
        assert table[:8].equal(before[:8])
        assert table[8:16].equal(before[:8])
        assert table[16:].equal(before[16:])
    begin_phase(run, 2 * STEPS, trained)
    for table, before in zip(tables(trained), first, strict=True):
        expected = torch.cat([before[:8], before[:8], before[:4]])
        assert table[:20].equal(expected)
        assert table[20:].equal(before[20:])


@pytest.mark.parametrize("finished", [0, 1, STEPS - 1, STEPS + 1, 3 * STEPS])
def test_positions_stay_where_no_longer_phase_begins(finished: int) -> None:
    trained = begun(run_of())
    before = tables(trained)[1].clone()
    begin_phase(run_of(), finished, trained)
    assert tables(trained)[1].equal(before)


def test_a_shorter_or_equal_phase_copies_nothing() -> None:
    phases = tuple(Phase(steps=STEPS, sequence_length=n, batch_size=2) for n in (16, 16, 8, 16))
    run = replace(run_of(), phases=phases)
    trained = begun(run)
    before = tables(trained)[1].clone()
    for start in range(0, run.num_steps, STEPS):
        begin_phase(run, start, trained)
    assert tables(trained)[1].equal(before)


def test_the_papers_runs_copy_no_positions() -> None:
    assert not paper_base().tile_positions
    run = run_of(tiles=False)
    trained = begun(run)
    before = tables(trained)[1].clone()
    begin_phase(run, STEPS, trained)
    assert tables(trained)[1].equal(before)


def test_a_run_resumed_where_a_longer_phase_begins_starts_it_alike(tmp_path: Path) -> None:
    run = run_of()
    trained, resumed = begun(run), begun(replace(run, seed=1))
    save_checkpoint(tmp_path / "border", trained, STEPS, tiny_tokenizer())
    begin_phase(run, STEPS, trained)
    begin_phase(run, load_state(tmp_path / "border", resumed.optimizer).step, resumed)
    assert tables(resumed)[1].equal(tables(trained)[1])


def test_runs_that_mask_otherwise_are_evaluated_on_the_same_masks() -> None:
    run = run_of()
    other = replace(run, masking=Masking(rate=0.4, whole_word=True), seed=5)
    assert held_out_rules(other, run.phases[0], 9) == held_out_rules(run, run.phases[0], 9)
    assert held_out_rules(run, run.phases[0], 9).masking.rate == 0.15
