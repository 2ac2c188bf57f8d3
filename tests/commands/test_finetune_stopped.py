"""A fine-tuning run that is killed, stopped or out of patience, and what going on makes of it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.native import multiplies_float16
from bertsmith.runs.directory import reached
from bertsmith.train.log import MetricsLog, Record, read_metrics
from tests.commands.small_run import killed_at
from tests.commands.small_task import NUM_STEPS, begun, bertsmith


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--frozen-layers", "1", "--accumulation", "2"),
        (
            *("--approach", "feature_based", "--layers", "weighted-sum-all"),
            *("--on-top", "bilstm", "--lstm-size", "6"),
        ),
    ],
    ids=["all", "frozen", "features"],
)
def test_killed_and_resumed_gives_the_same_bytes(
    folder: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    whole, directory = tmp_path / "whole", tmp_path / "run"
    assert bertsmith(*begun(folder, whole), *options) == 0
    # Saved every 2 steps: step 13 falls between two checkpoints, and behind an evaluation.
    killed_at(13, *begun(folder, directory), *options)
    assert reached(directory) == 12
    assert bertsmith("finetune", "--resume", directory) == 0
    last = Path("checkpoints") / f"step-{NUM_STEPS:08d}"
    for place in (Path("best"), last):
        for file in (whole / place).iterdir():
            assert (directory / place / file.name).read_bytes() == file.read_bytes(), file
    rows = [
        [
            {name: value for name, value in row.items() if name != "seconds"}
            for row in read_metrics(path / "metrics.jsonl")
        ]
        for path in (whole, directory)
    ]
    assert rows[0] == rows[1]
    assert (directory / "scores.json").read_bytes() == (whole / "scores.json").read_bytes()


def test_the_best_model_is_one_that_the_run_goes_on_from_however_seldom_it_saves(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed behind the first evaluation, with no other checkpoint due before the end."""
    write = MetricsLog.write

    class Killed(BaseException):
        pass

    def killed(log: MetricsLog, row: Record) -> None:
        write(log, row)
        if row["step"] == 7:
            raise Killed

    monkeypatch.setattr(MetricsLog, "write", killed)
    with pytest.raises(Killed):
        bertsmith(*begun(folder, tmp_path), "--save-every", "9")
    assert reached(tmp_path) == 5
    last, best = (
        (tmp_path / place / "model.safetensors").read_bytes()
        for place in ("checkpoints/step-00000005", "best")
    )
    assert last == best


def test_ctrl_c_saves_after_the_step_and_says_how_to_go_on(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = MetricsLog.write

    def interrupted(log: MetricsLog, row: Record) -> None:
        write(log, row)
        if row["step"] == 7:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patches:
        patches.setattr(MetricsLog, "write", interrupted)
        assert bertsmith(*begun(folder, tmp_path / "run")) == cli.EXIT_INTERRUPTED
    assert reached(tmp_path / "run") == 7
    *_, go_on = capsys.readouterr().out.splitlines()
    assert bertsmith(*shlex.split(go_on)[1:]) == 0
    assert "going on after step 7 of 30" in capsys.readouterr().out
    for place in ("best", f"checkpoints/step-{NUM_STEPS:08d}"):
        found, expected = (
            (each / place / "model.safetensors").read_bytes()
            for each in (tmp_path / "run", folder / "run")
        )
        assert found == expected


@pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
@pytest.mark.parametrize("options", [(), ("--approach", "feature_based")], ids=["all", "features"])
def test_a_run_in_fp16_goes_on_to_the_bit_and_where_there_is_none_in_auto(
    folder: Path,
    tmp_path: Path,
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = (*options, "--precision", "fp16")
    assert bertsmith(*begun(folder, tmp_path / "whole"), *options) == 0
    assert "fp32, products in fp16" in capsys.readouterr().out
    for name in ("here", "elsewhere"):
        killed_at(13, *begun(folder, tmp_path / name), *options)
    assert bertsmith("finetune", "--resume", tmp_path / "here") == 0
    last = Path("checkpoints") / f"step-{NUM_STEPS:08d}" / "model.safetensors"
    assert (tmp_path / "here" / last).read_bytes() == (tmp_path / "whole" / last).read_bytes()
    for module in ("bertsmith.train.device", "bertsmith.runs.functions"):
        monkeypatch.setattr(f"{module}.multiplies_float16", lambda: False)
    monkeypatch.setattr("bertsmith.train.device.cpu_multiplies_bf16", lambda: False)
    capsys.readouterr()
    assert bertsmith("finetune", "--resume", tmp_path / "elsewhere") == 0
    assert "fp16_products yes -> none since it began" in capsys.readouterr().out
    assert (tmp_path / "elsewhere" / last).is_file()


@pytest.mark.parametrize("name", ["model.safetensors", "trainer.safetensors", "trainer.json"])
def test_a_damaged_checkpoint_says_where_the_run_begins_without_it(
    folder: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "run"
    shutil.copytree(folder / "run", directory)
    last = directory / "checkpoints" / f"step-{NUM_STEPS:08d}"
    os.truncate(last / name, 10)
    assert bertsmith("finetune", "--resume", directory) == 2
    told = capsys.readouterr().err
    assert str(last / name) in told
    assert told.endswith(f"; once {last} is deleted, the run begins again from its first step\n")
    shutil.rmtree(last)
    assert bertsmith("finetune", "--resume", directory) == 0
    for file in last.iterdir():
        expected = folder / "run" / "checkpoints" / last.name / file.name
        assert file.read_bytes() == expected.read_bytes(), file


def test_patience_ends_the_run_which_is_then_finished(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rate = ("--optimizer.learning-rate", "0", "--patience", "2")
    assert bertsmith(*begun(folder, tmp_path / "run"), *rate) == 0
    assert reached(tmp_path / "run") == 15
    assert json.loads((tmp_path / "run" / "scores.json").read_text())["step"] == 5
    ended = "ended after step 15 of 30: the last 2 Dev scores were no better than the best"
    chosen = "Dev, the model of step 5, on 20 examples, by which it was chosen among 3:"
    told = capsys.readouterr().out
    assert "the best on Dev is kept; ends when 2 in a row are no better" in told
    assert ended in told
    assert chosen in told
    assert ended in (tmp_path / "run" / "README.md").read_text("utf-8")
    assert bertsmith("finetune", "--resume", tmp_path / "run") == 0
    told = capsys.readouterr().out
    assert ended in told
    assert chosen in told
    assert reached(tmp_path / "run") == 15
