"""Two processes under torchrun make the run that one process makes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bertsmith.train.log import read_metrics
from tests.commands.small_run import FURTHER, TOY, environment, run, write_text


def together(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs `bertsmith pretrain` in two processes."""
    return subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
            "-m", "bertsmith", "pretrain", *map(str, arguments),
        ],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip


def losses_of(directory: Path) -> list[float]:
    return [row["loss"] for row in read_metrics(directory / "metrics.jsonl") if "loss" in row]


@pytest.mark.slow
def test_two_processes_take_the_same_steps_as_one(tmp_path: Path) -> None:
    text = write_text(tmp_path / "text")
    alone = run(text, *TOY, "--out", tmp_path / "alone")
    assert alone.returncode == 0, alone.stderr
    both = together(text, *TOY, "--out", tmp_path / "two")
    assert both.returncode == 0, both.stderr
    losses = losses_of(tmp_path / "two")
    assert len(losses) == 24
    # Sums in another order: fp32 rounding, which 24 steps of training multiply.
    assert losses == pytest.approx(losses_of(tmp_path / "alone"), rel=1e-4)
    assert (tmp_path / "two" / "README.md").is_file()

    (tmp_path / "words").write_text("boats\nteachers\n")
    model = ("--from", tmp_path / "alone", "--add-words", tmp_path / "words", *FURTHER)
    answers = [
        start(text, *model, "--out", tmp_path / f"further-{name}")
        for name, start in (("alone", run), ("two", together))
    ]
    assert [each.returncode for each in answers] == [0, 0], answers[1].stderr
    losses = losses_of(tmp_path / "further-two")
    assert len(losses) == 6
    assert losses == pytest.approx(losses_of(tmp_path / "further-alone"), rel=1e-5)
