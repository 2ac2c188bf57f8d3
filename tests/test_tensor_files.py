"""Tensors are written whole, or the error names the file and says why."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from bertsmith.files import atomic_file
from bertsmith.tensor_files import save_tensors
from bertsmith.train.log import MetricsLog


def test_tensors_come_back(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6).reshape(2, 3)}
    save_tensors(tmp_path / "a", tensors, {"format": "pt"})
    assert torch.equal(load_file(tmp_path / "a")["a"], tensors["a"])


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_an_error_with_the_files_name(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="large") as stop:
        save_tensors(tmp_path / "a", {"a": torch.zeros(1000)})
    assert (stop.value.errno, stop.value.filename) == (errno.EFBIG, str(tmp_path / "a"))
    with pytest.raises(OSError, match="large") as stop, atomic_file(tmp_path / "b") as file:
        file.write(b"x" * 100)
    assert stop.value.filename == str(tmp_path / "b")
    log = MetricsLog(tmp_path / "c")
    with pytest.raises(OSError, match="large") as stop:
        log.write({"step": 1, "told": "x" * 100})
    assert stop.value.filename == str(tmp_path / "c")


def test_what_is_no_fault_of_the_disk_names_the_file_too(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a"):
        save_tensors(tmp_path / "none" / "a", {"a": torch.zeros(1)})
