"""A checkpoint of a time of shorter sequences is fine-tuned with positions for the longer ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints import store
from bertsmith.commands.reproduction.making import at_full_length
from bertsmith.recipes.experiments.experiment import Pretrained
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.directory import checkpoint_path
from bertsmith.runs.experiments.places import known_positions
from bertsmith.runs.training import POSITIONS, save_checkpoint, trainee
from tests.checkpoints.tiny import tiny_config, tiny_tokenizer

LENGTHS, STEPS = (8, 16), 3


def run_of(*, tiles: bool = True) -> PretrainRun:
    phases = tuple(Phase(steps=STEPS, sequence_length=length, batch_size=2) for length in LENGTHS)
    return replace(
        mini_cpu(),
        model=tiny_config(),
        phases=phases,
        warmup_steps=1,
        precision="fp32",
        tile_positions=tiles,
    )


def write_checkpoint(run: PretrainRun, step: int, directory: Path) -> Path:
    path = checkpoint_path(directory, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_checkpoint(path, trainee(run, torch.device("cpu")), step, tiny_tokenizer())
    return path


def positions(checkpoint: Path) -> torch.Tensor:
    return store.load(checkpoint).model.state_dict()[POSITIONS]


def test_known_positions_are_those_of_the_longest_phase_so_far() -> None:
    run = run_of()
    known = [known_positions(Pretrained(run=run, step=step))[0] for step in range(1, 7)]
    assert known == [8, 8, 8, 16, 16, 16]
    shrinking = replace(run, phases=run.phases[::-1])
    for model in (
        *(Pretrained(run=shrinking, step=step) for step in (1, 6)),
        Pretrained(run=run),
        Pretrained(run=run_of(tiles=False), step=1),
    ):
        assert known_positions(model) == (16, 16)


def test_a_checkpoint_of_the_first_phase_gets_copies_behind_its_positions(tmp_path: Path) -> None:
    kept = write_checkpoint(run_of(), STEPS, tmp_path)
    before = positions(kept)
    model, cell = Pretrained(run=run_of(), step=STEPS), tmp_path / "cell"
    found = at_full_length(model, kept, cell)
    expected = torch.cat([before[:8], before[:8], before[16:]])
    assert positions(found).equal(expected)
    assert positions(kept).equal(before)
    assert not before[8:16].equal(before[:8])
    state, other = (store.load(path).model.state_dict() for path in (kept, found))
    assert all(state[name].equal(other[name]) for name in state if name != POSITIONS)
    assert at_full_length(model, kept, cell) == found == cell / "begun-with"


@pytest.mark.parametrize(("tiles", "step"), [(True, STEPS + 1), (False, STEPS)])
def test_other_checkpoints_are_taken_as_they_are(tiles: bool, step: int, tmp_path: Path) -> None:
    kept = write_checkpoint(run_of(tiles=tiles), step, tmp_path)
    model = Pretrained(run=run_of(tiles=tiles), step=step)
    assert at_full_length(model, kept, tmp_path / "cell") == kept
    assert not (tmp_path / "cell").exists()
