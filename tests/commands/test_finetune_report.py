"""What a finished fine-tuning run, and an evaluation, leave to be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.small_task import bertsmith

PICTURES = {"by-label.png", "calibration.png", "confusion.png"}


def evaluated(folder: Path, report: Path) -> int:
    asked = ("--glue", folder / "glue", "--task", "SST-2", "--split", "train")
    return bertsmith("evaluate", folder / "run", *asked, "--report", report)


def test_the_run_explains_itself(folder: Path) -> None:
    run = folder / "run"
    assert {path.name for path in run.glob("*.png")} == {*PICTURES, "curves.png"}
    readme = (run / "README.md").read_text(encoding="utf-8")
    assert f"bertsmith evaluate {run} --glue {folder / 'glue'} --task SST-2" in readme
    assert "- a new head of 2 scores, drawn by seed 0" in readme
    assert (run / "worst.md").is_file() == ("worst.md" in readme)


def test_an_evaluation_reports_into_a_folder_of_its_own(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"
    assert evaluated(folder, report) == 0
    told = capsys.readouterr().out
    assert "  label  count  precision  recall" in told
    assert "calibration error (ECE)" in told
    assert {path.name for path in report.glob("*.png")} == PICTURES
    assert "train" in (report / "README.md").read_text(encoding="utf-8")
    before = (folder / "run" / "README.md").read_bytes()
    assert evaluated(folder, folder / "run") == 2
    assert "holds other files" in capsys.readouterr().err
    assert (folder / "run" / "README.md").read_bytes() == before
    assert bertsmith("evaluate", "--predictions", "p.json", "--report", report) == 2
    assert "--report shows what a model answers" in capsys.readouterr().err


def test_plot_draws_runs_of_fine_tuning_again_and_none_of_another_kind_beside_them(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, path = folder / "run", tmp_path / "curves.svg"
    assert bertsmith("plot", run, run, "--out", path) == 0
    assert "<svg" in path.read_text(encoding="utf-8")
    other = tmp_path / "pretrained"
    other.mkdir()
    (other / "run.json").write_text("{}")
    assert bertsmith("plot", run, other, "--out", path) == 2
    assert "holds a fine-tuning run, expected one of pre-training" in capsys.readouterr().err
