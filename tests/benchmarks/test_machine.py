import json
import os
import subprocess
import sys

import pytest
import torch

from benchmarks import machine
from benchmarks.machine import CPU, append_row, device_facts, imitate, matrix_rate, versions

IMITATED = """
import os, torch
from benchmarks.machine import imitate
{before}
imitate("AVX2")
print(torch.backends.cpu.get_cpu_capability(), os.environ["TORCHINDUCTOR_CACHE_DIR"])
"""
has_newer = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() != "AVX512", reason="this CPU is no newer"
)


def imitated(before: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IMITATED.format(before=before)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@has_newer
def test_an_older_cpu_is_imitated_with_kernels_of_its_own():
    capability, kernels = imitated().stdout.split()
    assert capability == "AVX2"
    assert kernels.endswith("_AVX2")


@has_newer
def test_it_is_too_late_to_imitate_once_torch_has_settled():
    finished = imitated("torch.ones(3).sum()")
    assert finished.returncode
    assert "computes with AVX512" in finished.stderr


def test_nothing_is_imitated_unasked():
    before = dict(os.environ)
    imitate(None)
    assert dict(os.environ) == before


def test_the_matrix_rate_is_a_rate():
    assert 1e8 < matrix_rate("fp32", rounds=1) < 1e15
    assert 1e8 < matrix_rate(rounds=1) < 1e15


def test_a_row_says_where_it_was_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path / "results")
    append_row("some", {"value": 1, **device_facts(CPU, "AVX2")})
    [line] = (tmp_path / "results" / "some.jsonl").read_text(encoding="utf-8").splitlines()
    row = json.loads(line)
    assert (row["device"], row["instructions"], row["value"]) == ("cpu", "AVX2", 1)
    assert row["torch"] == torch.__version__
    assert {"time", "commit", "processor", "threads", "python"} <= set(row)


def test_a_row_is_kept_where_there_is_no_git(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    monkeypatch.setenv("PATH", "")
    append_row("some", {"value": 1})
    assert json.loads((tmp_path / "some.jsonl").read_text(encoding="utf-8"))["commit"] == ""


def test_only_what_is_installed_has_a_version():
    assert set(versions(["numpy", "no-such-package"])) == {"numpy"}
