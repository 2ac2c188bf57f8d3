"""A head is learned from kept hidden states: as without them, once read, saved whole."""

from __future__ import annotations

import io
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from rich.console import Console

from bertsmith import cli, fusion
from bertsmith.checkpoints.store import load
from bertsmith.commands.finetune import fine_tune
from bertsmith.commands.sources.recipe import RecipeName
from bertsmith.features.hidden_store import HiddenStore
from bertsmith.model.bert import Bert
from bertsmith.recipes.finetuning import RECIPES, FinetuneRun
from bertsmith.runs.finetune_job import Job
from bertsmith.runs.finetune_ongoing import OngoingFinetuning
from bertsmith.runs.learning_set import LearningSet
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.log import read_metrics
from tests.commands.small_task import begun, bertsmith, write_glue, write_model
from tests.commands.test_finetune_kinds import SETS

RUN = FinetuneRun(
    epochs=20.0, batch_size=8, precision="fp32", evaluate_every=4.0, save_every=20.0,
    optimizer=OptimizerConfig(learning_rate=1e-2), approach="feature_based",
)  # fmt: skip
CHOICES = {
    "tagging, weighted": ("tagging", {"layers": "weighted-sum-all", "on_top": "bilstm"}),
    "tagging, side by side": ("tagging", {"layers": "0,2"}),
    "spans": ("spans", {"layers": "last", "on_top": "bilstm"}),
    "choice, mean": ("choice", {"layers": "0,1,2", "pooling": "mean"}),
    "choice, pooler": ("choice", {}),
}


def run_of(changes: dict[str, Any]) -> FinetuneRun:
    lstm = {"lstm_size": 16} if "on_top" in changes else {}
    return replace(RUN, **changes, **lstm)


def learned(folder: Path, name: str, learning: LearningSet[Any, Any, Any], run: FinetuneRun) -> str:
    """Trains in folder/name on folder/model; gives what was told."""
    if not (folder / "model").exists():
        write_model(folder / "model")
    job = Job(
        model=str(folder / "model"), run=run, directory=folder / name, request={"name": name},
        command="bertsmith finetune", device=torch.device("cpu"),
    )  # fmt: skip
    console = Console(file=io.StringIO(), width=300)
    with fusion.unfused():
        fine_tune(job, learning, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def losses(directory: Path) -> list[float]:
    rows = read_metrics(directory / "metrics.jsonl")
    return [float(row["loss"] or 0.0) for row in rows if "loss" in row]


@pytest.mark.parametrize(
    ("name", "precision"), [*((name, "fp32") for name in CHOICES), ("tagging, weighted", "bf16")]
)
def test_a_head_is_learned_and_the_encoder_stays_to_the_bit(
    name: str, precision: Any, tmp_path: Path
) -> None:
    kind, changes = CHOICES[name]
    run = replace(run_of(changes), precision=precision)
    told = learned(tmp_path, "run", SETS[kind], run)
    assert f" in {'bfloat16' if precision == 'bf16' else 'float32'}; " in told
    assert "of it to be made, in one pass of the encoder; in" in told
    before, after = load(tmp_path / "model").model.bert, load(tmp_path / "run")
    kept = after.model.bert.state_dict()
    assert all(torch.equal(each, before.state_dict()[n]) for n, each in kept.items())
    assert after.head is not None
    assert (after.head.config.layers, after.head.config.on_top) == (
        changes.get("layers", "last"), changes.get("on_top", "nothing"),
    )  # fmt: skip
    found = losses(tmp_path / "run")
    assert found[-1] < 0.7 * found[0]


@pytest.mark.parametrize(
    ("kind", "changes", "num_equal"),
    [
        ("tagging", {"on_top": "bilstm"}, 5),
        ("tagging", {}, 5),
        ("spans", {}, 10),
        ("choice", {}, 1),  # without kept states its pooler is trained
    ],
)
def test_kept_states_teach_what_the_frozen_encoder_itself_does(
    kind: str, changes: dict[str, Any], num_equal: int, tmp_path: Path
) -> None:
    run = replace(run_of(changes), dropout=False, epochs=2.0)
    learned(tmp_path, "kept", SETS[kind], run)
    learned(tmp_path, "plain", SETS[kind], replace(run, approach="fine_tuning", frozen_layers=2))
    kept, plain = (losses(tmp_path / name)[:num_equal] for name in ("kept", "plain"))
    assert len(kept) == num_equal
    assert kept == pytest.approx(plain, rel=1e-4)


def test_the_encoder_reads_once_and_nothing_for_another_seed_or_fewer_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, read = [], Bert.chosen_states

    def counted(bert: Bert, *arguments: Any) -> tuple[torch.Tensor, ...]:
        calls.append(arguments)
        return read(bert, *arguments)

    monkeypatch.setattr(Bert, "chosen_states", counted)
    run = run_of({"layers": "weighted-sum-all", "on_top": "bilstm"})
    learned(tmp_path, "one", SETS["tagging"], replace(run, epochs=1.0))
    of_one_epoch = len(calls)
    calls.clear()
    told = learned(tmp_path, "many", SETS["tagging"], replace(run, seed=1))
    assert "all there, the encoder reads nothing" in told
    of_scoring = len(calls)  # the finished model is scored as it answers, without what was kept
    assert 0 < of_scoring < of_one_epoch
    calls.clear()
    monkeypatch.setattr(HiddenStore, "fill", None)
    learned(tmp_path, "other", SETS["tagging"], replace(run, layers="2", epochs=4.0))
    assert len(calls) == of_scoring
    assert len(list((tmp_path / "features").iterdir())) == 2


def test_killed_without_what_was_kept_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of({"layers": "0,2", "on_top": "bilstm"})
    run = replace(run, epochs=4.0, save_every=1.0)
    learned(tmp_path, "whole", SETS["tagging"], run)
    made = {path: path.read_bytes() for path in (tmp_path / "features").rglob("*.npy")}
    directory, save = tmp_path / "run", OngoingFinetuning.save

    def stopped(ongoing: OngoingFinetuning, step: int) -> None:
        save(ongoing, step)
        if step > 5:
            raise RuntimeError("killed")

    with monkeypatch.context() as patches:
        patches.setattr(OngoingFinetuning, "save", stopped)
        with pytest.raises(RuntimeError, match="killed"):
            learned(tmp_path, "run", SETS["tagging"], run)
    for path in made:
        path.unlink()
    learned(tmp_path, "run", SETS["tagging"], run)
    assert {path: path.read_bytes() for path in made} == made
    for file in (tmp_path / "whole" / "best").iterdir():
        assert (directory / "best" / file.name).read_bytes() == file.read_bytes(), file


def test_ctrl_c_while_the_encoder_reads_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(tmp_path / "glue")
    write_model(tmp_path / "model")
    asked = (*begun(tmp_path, tmp_path / "run"), "--approach", "feature_based")

    def stopped(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr(HiddenStore, "fill", stopped)
        assert bertsmith(*asked) == cli.EXIT_INTERRUPTED
    *_, told, go_on = capsys.readouterr().out.splitlines()
    assert told == "stopped before the first step, no features are kept; to go on:"
    assert bertsmith(*shlex.split(go_on)[1:]) == 0
    assert "Dev, the model of step" in capsys.readouterr().out


def test_a_linear_probe_from_the_command_line_is_kept_told_and_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(tmp_path / "glue")
    write_model(tmp_path / "model")
    probe = ("--approach", "feature_based", "--pooling", "mean", "--layers", "weighted-sum-all")
    asked = (*begun(tmp_path, tmp_path / "run"), *probe, "--features", tmp_path / "kept")
    assert bertsmith(*asked) == 0
    told = capsys.readouterr().out
    for line in (
        "a new head of 2 scores on the layers weighted-sum-all, the pooling mean, drawn by seed 0",
        "layers 1, 2 of the mean, 15.4 KB in float32",
        "shares of the layers: 1 0.",
    ):
        assert line in told
    (mix,) = [each for each in told.splitlines() if each.startswith("shares of the layers: ")]
    shares, _, scale = mix.removeprefix("shares of the layers: ").partition("; their sum times ")
    assert sum(float(each.split()[1]) for each in shares.split(", ")) == pytest.approx(1, abs=2e-3)
    assert float(scale) > 0
    assert mix in (tmp_path / "run" / "README.md").read_text().splitlines()
    assert len(list((tmp_path / "kept").iterdir())) == 2
    line = next(each for each in told.splitlines() if each.startswith("  accuracy"))
    glue = ("--glue", tmp_path / "glue", "--task", "SST-2")
    assert bertsmith("evaluate", tmp_path / "run", *glue) == 0
    assert line in capsys.readouterr().out.splitlines()
    out = tmp_path / "out"
    assert bertsmith("convert", tmp_path / "run", out, "--to", "hugging-face") == 2
    assert "no class for a BERT with a head on the layers weighted-sum" in capsys.readouterr().err


def test_every_recipe_is_a_choice_of_the_command_line() -> None:
    assert set(get_args(RecipeName)) == set(RECIPES)


def test_a_row_of_table_7_is_one_command_and_its_run_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_model(tmp_path / "model")
    words = (("the", "O"), ("dog", "O"), ("likes", "O"), ("paris", "B-LOC"), (".", "O"))
    block = "".join(f"{word} {tag}\n" for word, tag in words)
    for name, count in (("train.txt", 30), ("dev.txt", 6)):
        (tmp_path / name).write_text("\n".join(["-DOCSTART- O\n"] + [block] * count) + "\n")
    asked = (
        "finetune", tmp_path / "model", "--tagged", tmp_path / "train.txt", "--max-tokens", "20",
        "--recipe", "ner-features-second-to-last", "--lstm-size", "8",
        "--epochs", "40", "--batch-size", "4", "--optimizer.learning-rate", "1e-2",
        "--out", tmp_path / "run", "--threads", "1",
    )  # fmt: skip
    assert bertsmith(*asked, "--dev", tmp_path / "dev.txt") == 0
    told = capsys.readouterr().out
    assert "a BiLSTM of 2 x 8 states a direction, the layers second-to-last" in told
    assert "layer 1 of every token" in told
    score = next(line.split()[1] for line in told.splitlines() if line.startswith("  f1 "))
    assert float(score) > 0.9
    assert bertsmith("predict", tmp_path / "run", "the dog likes paris .") == 0
    assert "paris" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--layers", "embeddings"), "layers embeddings and pooling pooler are of frozen features"),
        (("--approach", "feature_based", "--layers", "lst"), "did you mean 'last'"),
        (("--approach", "feature_based", "--layers", "embeddings"), "reads the last layer alone"),
        (("--approach", "feature_based", "--frozen-layers", "1"), "leave frozen_layers out"),
        (
            ("--approach", "feature_based", "--layers", "concat-last-four", "--pooling", "cls"),
            "needs a model of at least 4 layers",
        ),
        (
            ("--approach", "feature_based", "--on-top", "bilstm", "--pooling", "mean"),
            "reads the ends of a BiLSTM",
        ),
        (("--features", "somewhere"), "keeps hidden states of --approach feature_based"),
    ],
)
def test_what_would_be_passed_over_is_refused(
    options: tuple[str, ...], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_glue(tmp_path / "glue")
    write_model(tmp_path / "model")
    assert bertsmith(*begun(tmp_path, tmp_path / "run"), *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


def test_a_pooler_that_was_never_trained_and_a_full_disk_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_glue(tmp_path / "glue")
    write_model(tmp_path / "model", "masked_lm")
    asked = (*begun(tmp_path, tmp_path / "run"), "--approach", "feature_based")
    assert bertsmith(*asked) == 2
    assert "holds no pooler, and one that is drawn and never trained" in capsys.readouterr().err
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": 100})())
    assert bertsmith(*asked, "--pooling", "cls") == 2
    assert f"take 7.7 KB, and {tmp_path} has 0.1 KB left: keep" in capsys.readouterr().err
    # Room for the hidden states, or for models and checkpoints, but not for both.
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": 10**9})())
    assert bertsmith(*asked, "--pooling", "cls", "--plan-only") == 0
    (told,) = re.findall(r"disk +about ([\d.]+) KB", capsys.readouterr().out)
    free = 1_000 * float(told) - 4_000
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("", (), {"free": free})())
    assert bertsmith(*asked, "--pooling", "cls") == 2
    assert f"the run's files take {told} KB" in capsys.readouterr().err
