"""What a run keeps on the disk is known before its first step, and refused where it has no room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.recipes.pretraining import further
from bertsmith.recipes.run import Phase, PretrainRun
from bertsmith.runs.finetuning import TaskCheckpoint
from bertsmith.runs.room import (
    checkpoint_bytes,
    finetuning_bytes,
    kept_bytes,
    pretraining_bytes,
    told_bytes,
)
from bertsmith.runs.training import save_checkpoint, trainee
from bertsmith.train.state import TrainerState
from tests.checkpoints.tiny import tiny_config, tiny_tokenizer
from tests.commands.small_run import TOY, write_text
from tests.commands.small_task import begun, bertsmith, write_glue, write_model
from tests.commands.test_search import searching
from tests.runs.test_finetuning import RUN, loaded_from
from tests.runs.test_finetuning import begun as task_trainee_of

CPU = torch.device("cpu")
HEADERS = 1.2  # names and shapes are a good part of a toy's files


def pretraining(**changes: int) -> PretrainRun:
    """Twelve steps, saved after every third."""
    phases = (Phase(steps=12, sequence_length=16, batch_size=2),)
    run = replace(further(), model=tiny_config(), phases=phases, warmup_steps=1, precision="fp32")
    return replace(run, save_every=3, evaluate_every=3, **changes)


def tensors_in(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*.safetensors"))


def test_a_checkpoint_of_a_pre_training_is_as_large_as_was_told(tmp_path: Path) -> None:
    run = pretraining(keep_checkpoints=1)
    save_checkpoint(tmp_path / "one", trainee(run, CPU), 0, tiny_tokenizer())
    told = checkpoint_bytes(run, run.model.vocab_size)
    assert told <= tensors_in(tmp_path / "one") < HEADERS * told


def test_a_pre_training_keeps_its_newest_checkpoints_those_for_good_and_one_being_written() -> None:
    one = checkpoint_bytes(pretraining(keep_checkpoints=1), tiny_config().vocab_size)
    for kept, for_good, left, most in (
        (1, 0, 1, 2),
        (2, 0, 2, 3),
        (5, 0, 4, 4),
        (1, 6, 2, 4),
        (2, 6, 3, 4),
    ):
        run = pretraining(keep_checkpoints=kept, keep_every=for_good)
        assert checkpoint_bytes(run, run.model.vocab_size) == left * one
        assert pretraining_bytes(run) == most * one


@pytest.mark.parametrize("frozen_layers", [0, 1])
def test_what_a_fine_tuning_leaves_is_as_large_as_was_told(
    tmp_path: Path, frozen_layers: int
) -> None:
    run = replace(RUN, frozen_layers=frozen_layers)
    parts = task_trainee_of(run, loaded_from(tmp_path / "model"))
    keeper = TaskCheckpoint(tokenizer=tiny_tokenizer(), task={"kind": "none"})
    keeper.write(tmp_path / "step", parts, TrainerState(step=0, extra={}))
    best = (tmp_path / "step" / "model.safetensors").stat().st_size
    left = kept_bytes(parts.model)
    assert left <= tensors_in(tmp_path / "step") + best < HEADERS * left
    assert finetuning_bytes(parts.model) == 2 * left


def test_a_disk_without_room_is_told_before_the_first_step_and_in_the_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_glue(tmp_path / "glue")
    write_model(tmp_path / "model")
    text = write_text(tmp_path / "text")
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": 100})())
    for asked, what, remedy in (
        (("pretrain", text, *TOY, "--out", tmp_path / "pre"), "the run's checkpoints", "--out"),
        (begun(tmp_path, tmp_path / "run"), "the run's files take", "--out"),
        (searching(tmp_path, tmp_path / "search"), "the runs' models", "--out"),
    ):
        assert bertsmith(*asked) == 2
        out, error = capsys.readouterr()
        assert "0.1 KB are left" in out
        assert what in error
        assert "has 0.1 KB left: free some, or name another" in error
        assert remedy in error
        assert "step" not in [word for line in out.splitlines() for word in line.split()[:1]]
        assert bertsmith(*asked, "--plan-only") == 0
        assert "0.1 KB are left" in capsys.readouterr().out
    assert not list(tmp_path.glob("*/run.json"))
    assert not list(tmp_path.glob("search/*"))


def test_bytes_are_told_in_the_unit_that_a_person_would_take() -> None:
    told = [told_bytes(size) for size in (300, 15_000_000, 1_234_567_890)]
    assert told == ["0.3 KB", "15.0 MB", "1.2 GB"]
