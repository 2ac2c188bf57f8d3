"""Two processes under torchrun make the run that one process makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith.train.log import read_metrics
from tests.commands.small_run import TOY, environment, run, write_text


@pytest.mark.slow
def test_two_processes_take_the_same_steps_as_one(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text")
    alone = run(text, *TOY, "--out", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    together = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "-m", "bertsmith", "pretrain", str(text), *TOY, "--out", str(tmp_path / "two"),
        ],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert together.returncode == 0, together.stderr
    losses = [
        [row["loss"] for row in read_metrics(tmp_path / name / "metrics.jsonl") if "loss" in row]
        for name in ("alone", "two")
    ]
    assert len(losses[1]) == 24
    # Sums in another order: fp32 rounding, which 24 steps of training multiply.
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)
    assert (tmp_path / "two" / "README.md").is_file()
