"""`--overfit-one-batch` on the command line: its verdict, its exit status, and what it leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands.small_run import TOY, write_text
from tests.commands.small_task import RUN, bertsmith

OVERFIT = "--overfit-one-batch"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("overfitting") / "text")


def test_a_pre_training_run_learns_a_batch_by_heart_and_keeps_nothing_of_it(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--optimizer.learning-rate", "1e-2")
    begin = ("pretrain", text, *TOY, *rate, "--out", tmp_path / "run")
    assert bertsmith(*begin, OVERFIT) == 0
    told = capsys.readouterr().out
    assert "schedule" in told
    assert "learned by heart, so model, data and optimizer can learn" in told.splitlines()[-1]
    assert {path.name for path in (tmp_path / "run").iterdir()} <= {"corpus", "vocab", ".lock"}


def test_a_run_that_has_begun_is_tried_from_its_own_values(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--optimizer.learning-rate", "1e-2")
    begin = ("pretrain", text, *TOY, *rate, "--out", tmp_path / "run")
    assert bertsmith(*begin) == 0
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}
    capsys.readouterr()
    assert bertsmith(*begin, OVERFIT) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    assert "at a peak rate of 0.01 without dropout" in told
    before = float(told.split("loss ")[1].split()[0])
    assert before > 4.0  # of 300 words and two labels: as drawn, not as it was trained
    assert files == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*")}


def test_what_learns_nothing_exits_with_one(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--optimizer.learning-rate", "1e-9")
    with pytest.raises(SystemExit) as ended:
        bertsmith("pretrain", text, *TOY, *rate, "--out", tmp_path / "run", OVERFIT)
    assert ended.value.code == 1
    assert "NOT learned by heart" in capsys.readouterr().out


def test_fine_tuning_learns_a_batch_by_heart_and_keeps_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--glue", folder / "glue", *RUN, "--out", tmp_path / "run")
    assert bertsmith("finetune", folder / "model", *files, OVERFIT) == 0
    assert "learned by heart" in capsys.readouterr().out.splitlines()[-1]
    assert not (tmp_path / "run").exists()


def test_a_run_that_has_ended_is_tried_from_the_weights_that_it_began_with(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def verdict(out: Path) -> str:
        files = ("--glue", folder / "glue", *RUN, "--out", out)
        assert bertsmith("finetune", folder / "model", *files, OVERFIT) == 0
        return capsys.readouterr().out.splitlines()[-1]

    files = {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")}
    assert verdict(folder / "run") == verdict(tmp_path / "run")
    assert files == {path: path.stat().st_mtime_ns for path in (folder / "run").rglob("*")}


def test_a_search_is_no_run_that_could_be_tried(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--glue", folder / "glue", *RUN, "--out", tmp_path / "search")
    assert bertsmith("search", folder / "model", *files, OVERFIT) == 2
    assert f"there is no option '{OVERFIT}'" in capsys.readouterr().err
    assert not (tmp_path / "search").exists()


def test_labels_that_contradict_each_other_cannot_be_overfitted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.csv"
    rows = [f"the dog was hairy,{'yes' if number % 2 else 'no'}" for number in range(40)]
    texts.write_text("\n".join(["text,label", *rows]) + "\n")
    files = ("--texts", texts, "--dev", texts, "--out", tmp_path / "run")
    with pytest.raises(SystemExit) as ended:
        bertsmith("finetune", folder / "model", *files, "--threads", "1", OVERFIT)
    assert ended.value.code == 1
    assert "the examples contradict each other" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--plan-only",), "leave --plan-only out"),
        (("--approach", "feature_based"), "leave one of them out"),
    ],
)
def test_what_does_not_go_with_it_is_refused(
    folder: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    told: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    files = ("--glue", folder / "glue", *RUN, "--out", tmp_path / "run")
    assert bertsmith("finetune", folder / "model", *files, *options, OVERFIT) == 2
    assert told in capsys.readouterr().err


def test_a_resumed_run_takes_no_such_option(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith("pretrain", "--resume", tmp_path / "run", OVERFIT) == 2
    assert OVERFIT in capsys.readouterr().err
