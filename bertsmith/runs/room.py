"""A run -> what it keeps on the disk at most, and whether the disk has the room.

A disk that fills in mid-run costs no more than the steps since the last checkpoint; told before the
first step, it costs nothing. Checkpoints alone are counted: metrics and pictures are small.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from bertsmith.model.task_model import TaskModel
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.planning import num_parameters

_FLOAT = 4  # bytes
_OF_TRAINER = 3
"""Floats that the trainer keeps of each weight that learns: its own copy and two moments."""
_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))


def checkpoint_bytes(run: PretrainRun, vocab_size: int) -> int:
    """Of all that a pre-training run leaves: its newest checkpoints, and those kept for good."""
    run = replace(run, model=replace(run.model, vocab_size=vocab_size))
    left = {*_saved(run)[-run.keep_checkpoints :], *_kept_for_good(run)}
    return len(left) * _one_checkpoint(run)


def pretraining_bytes(run: PretrainRun) -> int:
    """Of its checkpoints at most: a new one is whole before the oldest is deleted."""
    most = len(_kept_for_good(run)) + run.keep_checkpoints + 1
    return min(len(_saved(run)), most) * _one_checkpoint(run)


def model_bytes(model: TaskModel) -> int:
    """Of its weights."""
    return _FLOAT * sum(each.numel() for each in model.parameters())


def kept_bytes(model: TaskModel) -> int:
    """Of what a fine-tuning run leaves: the best model, and a checkpoint to go on from."""
    learns = sum(each.numel() for each in model.parameters() if each.requires_grad)
    return 2 * model_bytes(model) + _FLOAT * _OF_TRAINER * learns


def finetuning_bytes(model: TaskModel) -> int:
    """Of both at most: new ones are whole before the old ones are deleted."""
    return 2 * kept_bytes(model)


def require_room(
    size: int,
    directory: Path,
    what: str,
    remedy: str = "free some, or name another directory with --out",
) -> None:
    """Raises ValueError where the directory's disk has fewer than `size` bytes left.

    The directory need not be there yet; `what` is the subject of the sentence, `the checkpoints`.
    """
    there, free = _free(directory)
    if size > free:
        raise ValueError(
            f"{what} take {told_bytes(size)}, and {there} has {told_bytes(free)} left: {remedy}"
        )


def on_one_disk(first: Path, second: Path) -> bool:
    """Whether both directories, which need not be there yet, will lie on the same disk."""
    there, other = _free(first)[0], _free(second)[0]
    return there.stat().st_dev == other.stat().st_dev


def told_room(size: int, directory: Path) -> str:
    """A plan's line: the bytes beside those that are left."""
    return f"about {told_bytes(size)} in {directory}, {told_bytes(_free(directory)[1])} are left"


def told_bytes(size: int) -> str:
    """`1.2 GB`, `15.0 MB` or `0.3 KB`."""
    unit, name = next((each for each in _UNITS if size >= each[0]), _UNITS[-1])
    return f"{size / unit:.1f} {name}"


def _free(directory: Path) -> tuple[Path, int]:
    """What of the path is there already, and how many bytes its disk has left."""
    there = next(each for each in (directory, *directory.absolute().parents) if each.is_dir())
    return there, shutil.disk_usage(there).free


def _saved(run: PretrainRun) -> list[int]:
    """After which steps."""
    return sorted({*range(run.save_every, run.num_steps, run.save_every), run.num_steps})


def _kept_for_good(run: PretrainRun) -> list[int]:
    """Which of them nobody deletes."""
    return [step for step in _saved(run) if run.keep_every and step % run.keep_every == 0]


def _one_checkpoint(run: PretrainRun) -> int:
    return _FLOAT * (1 + _OF_TRAINER) * num_parameters(run)
