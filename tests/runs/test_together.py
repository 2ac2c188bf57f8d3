"""Several processes: their command, and the disk that they must share."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

import pytest
import torch
from torch import multiprocessing

from bertsmith.runs.together import command_line, require_shared_disk
from bertsmith.train.device import ALONE, Processes


def test_one_process_is_started_by_name() -> None:
    line = command_line(["pretrain", "my texts", "--seed", "1"], ALONE)
    assert line == "bertsmith pretrain 'my texts' --seed 1"


@pytest.mark.parametrize(
    ("local", "launcher"),
    [
        (None, "--nproc-per-node 8"),
        ("8", "--nproc-per-node 8"),
        ("4", "--nnodes 2 --nproc-per-node 4"),
    ],
)
def test_several_processes_are_started_by_torchrun(
    local: str | None, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    if local is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", local)
    line = command_line(["pretrain", "texts"], Processes(rank=0, world_size=8))
    assert line == f"torchrun {launcher} -m bertsmith pretrain texts"


def look_for_the_first(rank: int, folder: str, answers: MutableMapping[object, object]) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    for disks, seconds in (("aa", 60.0), ("ab", 0.5)):
        directory, said = Path(folder) / disks[rank], "they share it"
        try:
            require_shared_disk(directory, Processes(rank=rank, world_size=2), seconds=seconds)
        except ValueError as error:
            said = str(error)
        answers[disks, rank] = said
    torch.distributed.destroy_process_group()


def test_processes_on_separate_disks_are_told_so_in_every_one(tmp_path: Path) -> None:
    for disk in "ab":
        (tmp_path / disk).mkdir()
    with multiprocessing.get_context("spawn").Manager() as manager:
        answers = manager.dict()
        multiprocessing.spawn(look_for_the_first, args=(str(tmp_path), answers), nprocs=2)
        assert answers["aa", 0] == answers["aa", 1] == "they share it"
        assert answers["ab", 0].startswith("1 of 2 processes do not see")
        assert answers["ab", 1].startswith("1 of 2 processes do not see")
    assert os.listdir(tmp_path / "a") == []
