"""Asked to stop in its last step, a run is finished, written and told; nothing begins after it.

Asked to between two steps of `reproduce`, what is finished is told.
"""

from __future__ import annotations

import json
import shlex
import signal
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands import pretrain as pretrain_command
from bertsmith.commands import search as search_command
from bertsmith.commands import trained_run
from bertsmith.recipes.experiments.experiment import Cell, Perplexity
from bertsmith.recipes.experiments.scales import SCALES
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.directory import reached
from bertsmith.runs.divergence import DivergedError, require_finite
from bertsmith.runs.finetune_ongoing import OngoingFinetuning
from bertsmith.runs.ongoing import OngoingRun
from bertsmith.train.loop import Step
from bertsmith.train.optimizer import Optimizer
from tests.commands.small_reproduction import (
    experiment,
    made_by,
    reproduced,
    rows_of,
    small_scale,
    write_files,
)
from tests.commands.small_run import TOY, TOY_RUN, write_text
from tests.commands.small_task import NUM_STEPS, RUN, begun, bertsmith

SCALE = small_scale()
PRETRAINING_STEPS = 24
AT_THE_END = pytest.mark.parametrize("name", ["evaluate", "save"])


def ask_at_the_end(
    patches: pytest.MonkeyPatch, kind: type[OngoingFinetuning | OngoingRun], name: str
) -> None:
    """From now on Ctrl-C is pressed in this method of every run's last step."""
    method = vars(kind)[name]

    def asked(ongoing: OngoingFinetuning | OngoingRun, step: int) -> object:
        is_tuning = isinstance(ongoing, OngoingFinetuning)
        if step == (ongoing.num_steps if is_tuning else ongoing.record.run.num_steps):
            signal.raise_signal(signal.SIGINT)
        return method(ongoing, step)

    patches.setattr(kind, name, asked)


def diverges_asked(update: Step, optimizer: Optimizer, directory: Path, warmup: str) -> None:
    """Stands for `require_finite`: Ctrl-C is pressed in the step that is no number any more."""
    try:
        require_finite(update, optimizer, directory, warmup)
    except DivergedError:
        signal.raise_signal(signal.SIGINT)
        raise


def diverges_at_once(update: Step, optimizer: Optimizer, directory: Path, warmup: str) -> None:
    """Stands for `require_finite`: Ctrl-C is pressed in the first step, and it is lost."""
    signal.raise_signal(signal.SIGINT)
    raise DivergedError("lost")


@AT_THE_END
def test_a_fine_tuning_run_is_finished_told_and_then_stops(
    name: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patches:
        ask_at_the_end(patches, OngoingFinetuning, name)
        assert bertsmith(*begun(folder, out)) == cli.EXIT_INTERRUPTED
    told = capfd.readouterr()
    assert f"{out} holds the model; to score it again, or on other examples:" in told.out
    assert "to go on" not in told.out
    assert told.err.splitlines()[-1] == "bertsmith: stopped"
    last = f"checkpoints/step-{NUM_STEPS:08d}/model.safetensors"
    for place in (last, "best/model.safetensors", "scores.json"):
        assert (out / place).read_bytes() == (folder / "run" / place).read_bytes()
    monkeypatch.setattr(trained_run, "train", None)
    assert bertsmith("finetune", "--resume", out) == 0


@AT_THE_END
def test_a_pre_training_run_is_finished_told_and_then_stops(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patches:
        ask_at_the_end(patches, OngoingRun, name)
        text = write_text(tmp_path / "text")
        assert bertsmith("pretrain", text, *TOY, "--out", out) == cli.EXIT_INTERRUPTED
    told = capfd.readouterr()
    assert reached(out) == PRETRAINING_STEPS
    assert "perplexity" in (out / "README.md").read_text("utf-8")
    assert f"bertsmith predict fill-mask --model {out}" in told.out
    assert "to go on" not in told.out
    assert told.err.splitlines()[-1] == "bertsmith: stopped"
    # Of several processes, one that was asked stops all of them.
    other, looks = tmp_path / "other", iter(range(1, PRETRAINING_STEPS + 1))
    monkeypatch.setattr(
        pretrain_command, "agreed", lambda *_: next(looks, None) == PRETRAINING_STEPS
    )
    asked = ("pretrain", out / "corpus", *TOY_RUN, "--out", other)
    assert bertsmith(*asked) == cli.EXIT_INTERRUPTED
    assert (other / "README.md").is_file()
    assert bertsmith("pretrain", "--resume", other) == 0


def test_a_search_writes_the_run_down_and_begins_no_other(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    searching = ("search", *begun(folder, tmp_path)[1:], "--restarts", "2")
    with monkeypatch.context() as patches:
        ask_at_the_end(patches, OngoingFinetuning, "evaluate")
        assert bertsmith(*searching) == cli.EXIT_INTERRUPTED
    told = capsys.readouterr().out
    assert "run 1 of 2" in told
    assert "run 2 of 2" not in told
    assert told.splitlines()[-1] == f"bertsmith search --resume {shlex.quote(str(tmp_path))}"
    (first,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert first["scores"]
    assert "1 of 2 runs have ended" in (tmp_path / "README.md").read_text()
    assert bertsmith("search", "--resume", tmp_path) == 0
    told = capsys.readouterr().out
    assert "run 1 of 2" not in told
    assert "run 2 of 2" in told


def test_a_search_stops_after_a_run_that_is_lost_in_the_step_in_hand(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    at = RUN.index("--optimizer.learning-rate")
    options = (*RUN[:at], "--grid.learning-rates", "1e30", "1e-3", "--batch-size", "4")
    monkeypatch.setattr(trained_run, "require_finite", diverges_asked)
    files = (folder / "model", "--glue", folder / "glue")
    assert bertsmith("search", *files, *options, "--out", tmp_path) == cli.EXIT_INTERRUPTED
    told = capsys.readouterr().out
    assert "failed: what it computes was no number any more" in told
    assert "run 2 of 2" not in told
    (first,) = json.loads((tmp_path / "results.json").read_text())["runs"]
    assert first["failure"]


@pytest.fixture
def asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Text and sets, from which `table1` is to be made: a perplexity, and a cell of two runs."""
    model = SCALE.bert()
    cells: tuple[Cell, ...] = (Perplexity(model=model), SCALE.score(model, "SST-2"))
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*cells))
    return write_files(tmp_path)


def test_reproduce_begins_no_other_part_and_clears_a_cell_that_is_made(
    asked_for: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_by(monkeypatch)
    for kind, num_made, runs in (
        (OngoingRun, 1, ["1", "0"]),
        (OngoingFinetuning, 2, ["1", "1"]),
        (OngoingFinetuning, 3, ["1", "2"]),
    ):
        with monkeypatch.context() as patches:
            ask_at_the_end(patches, kind, "evaluate")
            with pytest.raises(KeyboardInterrupt):
                reproduced(asked_for, "table1")
        assert len(made) == num_made
        assert [row["runs"] for row in rows_of(asked_for, "table1").values()] == runs
    assert not list((asked_for / "out" / "fine-tuned").rglob("model.safetensors"))
    assert "2 of 2 parts are there" in reproduced(asked_for, "table1")


def test_reproduce_stops_after_a_pre_training_run_that_is_lost(
    asked_for: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = made_by(monkeypatch)
    monkeypatch.setattr(pretrain_command, "require_finite", diverges_at_once)
    cells = [SCALE.score(model, "SST-2") for model in (SCALE.bert(), SCALE.left_to_right())]
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*cells))
    with pytest.raises(KeyboardInterrupt):
        reproduced(asked_for, "table1")
    assert len(made) == 1
    assert "diverged" in rows_of(asked_for, "table1")["row 0"]["gap"]


def test_reproduce_tells_its_tables_when_it_is_asked_to_end_while_a_cell_is_read(
    asked_for: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def asked(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setitem(SCALES, "tiny", small_scale)
    monkeypatch.setattr(search_command, "start_of", asked)
    files = ("--text", asked_for / "text", "--data", asked_for / "data")
    options = ("--out", asked_for / "out", "--workers", "1", "--threads", "1")
    try:
        asking = ("reproduce", "table1", "--scale", "tiny", *files, *options)
        assert bertsmith(*asking) == cli.EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    told = capsys.readouterr()
    kept = "stopped; what is finished is kept, and the same command goes on from here"
    assert told.out.splitlines()[-1] == kept
    assert told.err.splitlines()[-1] == "bertsmith: stopped"
    assert [row["runs"] for row in rows_of(asked_for, "table1").values()] == ["1", "0"]
