"""Where a run goes on without a damaged checkpoint is told, and nothing of other errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.files import DamagedError
from bertsmith.runs.damage import told_with_remedy


def checkpoint(run: Path, step: int) -> Path:
    directory = run / "checkpoints" / f"step-{step:08d}"
    directory.mkdir(parents=True)
    for name in ("config.json", "model.safetensors"):
        (directory / name).touch()
    return directory


@pytest.mark.parametrize("error", [DamagedError, FileNotFoundError])
def test_the_newest_of_those_before_it_is_named(error: type[Exception], tmp_path: Path) -> None:
    *_, last = (checkpoint(tmp_path, step) for step in (9, 10, 11))
    told = f"broken; once {last} is deleted, the run goes on from step-00000010"
    with pytest.raises(DamagedError) as stop, told_with_remedy(last):
        raise error("broken")
    assert str(stop.value) == told


def test_without_one_before_it_the_run_begins_again(tmp_path: Path) -> None:
    last = checkpoint(tmp_path, 9)
    (tmp_path / "checkpoints" / "step-00000008").mkdir()  # half a checkpoint
    with pytest.raises(DamagedError) as stop, told_with_remedy(last):
        raise DamagedError("broken")
    told = f"broken; once {last} is deleted, the run begins again from its first step"
    assert str(stop.value) == told


def test_what_no_deletion_mends_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^misfit$"), told_with_remedy(checkpoint(tmp_path, 9)):
        raise ValueError("misfit")
    with pytest.raises(FileNotFoundError, match=r"^no model$"), told_with_remedy(None):
        raise FileNotFoundError("no model")
