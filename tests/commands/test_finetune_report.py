"""What a finished fine-tuning run, and an evaluation, leave to be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.small_task import RUN, begun, bertsmith, write_glue

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


@pytest.mark.parametrize(
    ("options", "is_chosen"),
    [((), True), (("--no-keep-best",), False), (("--evaluate-every", "9"), False)],
)
def test_a_score_that_the_model_was_chosen_by_says_so_wherever_it_stands(
    options: tuple[str, ...], is_chosen: bool,
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """The best of six evaluations; the last model, or the only one, is none."""
    run = tmp_path / "run"
    assert bertsmith(*begun(folder, run), *options) == 0
    scores = json.loads((run / "scores.json").read_text("utf-8"))
    assert ("by which it was chosen among 6:" in capsys.readouterr().out) is is_chosen
    told = (
        f"the model of step {scores['step']} was chosen among 6 by its score on Dev: its scores "
        f"there flatter"
    )
    assert scores.get("chosen_on_dev") == (told if is_chosen else None)
    lines = (run / "README.md").read_text("utf-8").splitlines()
    assert [line for line in lines if "chosen" in line] == ([told] if is_chosen else [])


NOTE = "another rate or another seed may help"


def test_a_run_that_has_learned_says_nothing_of_guessing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith("finetune", "--resume", folder / "run") == 0
    assert NOTE not in capsys.readouterr().out
    assert NOTE not in (folder / "run" / "README.md").read_text(encoding="utf-8")


def test_a_run_no_better_than_one_answer_to_all_ends_with_a_note(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--optimizer.learning-rate", "0")
    assert bertsmith(*begun(folder, tmp_path / "run"), *rate) == 0
    *_, note, _, command = capsys.readouterr().out.splitlines()
    assert command.startswith("bertsmith evaluate ")
    assert note == f"note  no better than one answer to all (accuracy 0.5): more epochs, {NOTE}"
    assert note in (tmp_path / "run" / "README.md").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("options", "steps", "progress", "read"),
    [
        (("--epochs", "3"), "1 of 32 examples: 3 epochs asked for, 1.6 read", "1.6, step 1", "1.6"),
        (
            ("--epochs", "4", "--patience", "1", "--optimizer.learning-rate", "0"),
            "2 of 32 examples: 4 epochs asked for, 3.2 read", "3.2, step 2", "3.2",
        ),
        (
            ("--epochs", "40", "--patience", "1", "--optimizer.learning-rate", "0"),
            "25 of 32 examples: 40 epochs;", "3.2, step 2", "3.2",
        ),
    ],
)  # fmt: skip
def test_epochs_are_told_as_they_were_read(
    options: tuple[str, ...], steps: str, progress: str, read: str,
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """A batch is larger than the whole set, or patience ends the run."""
    write_glue(folder / "few", num_train=20)
    begin = ("finetune", folder / "model", "--glue", folder / "few", *RUN)
    out = tmp_path / "run"
    assert bertsmith(*begin, "--out", out, "--batch-size", "32", *options) == 0
    told = capsys.readouterr().out
    assert steps in told
    assert [line for line in told.splitlines() if line.startswith("after epoch ")][-1].startswith(
        f"after epoch {progress}:"
    )
    asked = options[1]
    assert f": {asked} epochs asked for, {read} read, batches of 32," in (
        (out / "README.md").read_text(encoding="utf-8")
    )


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
    assert "--report is for what a model answers" in capsys.readouterr().err


@pytest.mark.drawn
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
