"""`bertsmith pretrain` from text to a directory that explains itself, and again, and wrongly."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors.torch import load_file

from bertsmith import cli
from bertsmith.batch import PretrainBatch
from bertsmith.checkpoints.store import load
from bertsmith.commands import decision, preparation
from bertsmith.commands import pretrain as pretrain_command
from bertsmith.files import write_json
from bertsmith.model.objectives import Losses
from bertsmith.native import multiplies_float16
from bertsmith.runs import machine
from bertsmith.runs.directory import reached
from bertsmith.runs.learner import Learner
from bertsmith.train.log import read_metrics
from tests.commands.small_run import TOY, TOY_RUN, write_text
from tests.commands.small_task import bertsmith


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pretrain")
    text = write_text(folder / "text")
    assert bertsmith("pretrain", text, *TOY, "--out", folder / "run") == 0
    return folder / "run"


def test_one_command_goes_from_a_folder_of_text_to_a_model_that_answers(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = ("predict", "fill-mask", "--model", finished, "the cat [MASK] the river .")
    assert bertsmith(*question, "--top-k", "3", "--jsonl") == 0
    answer = json.loads(capsys.readouterr().out.splitlines()[0])
    assert "the cat" in json.dumps(answer)


def test_the_run_directory_explains_itself(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_text())
    assert record["run"]["phases"] == [{"steps": 6, "sequence_length": 32, "batch_size": 8}] * 4
    assert record["versions"]["torch"] == torch.__version__
    assert len(record["corpus_fingerprint"]) == 64
    assert record["corpus"] == "corpus"
    readme = (finished / "README.md").read_text()
    for promised in ("perplexity", "next sentence, balanced", "unigram line", record["command"]):
        assert promised in readme
    assert (finished / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_every_step_has_a_row_of_metrics_and_set_steps_an_evaluation(finished: Path) -> None:
    rows = read_metrics(finished / "metrics.jsonl")
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, 25))
    assert [row["step"] for row in rows if "evaluation_loss" in row] == [8, 16, 24]
    assert rows[0]["learning_rate"] == 0.0
    for row in rows:
        if "loss" in row:
            total = row["masked_lm_loss"] + row["next_sentence_loss"]
            assert row["loss"] == pytest.approx(total, rel=1e-5)


def test_the_last_checkpoints_are_kept_and_hold_the_trainers_state(finished: Path) -> None:
    names = sorted(path.name for path in (finished / "checkpoints").iterdir())
    assert names == ["step-00000023", "step-00000024"]
    files = {path.name for path in (finished / "checkpoints" / names[-1]).iterdir()}
    assert {"config.json", "model.safetensors", "vocab.txt", "tokenizer.json"} <= files
    assert {"trainer.json", "trainer.safetensors"} <= files
    assert load(finished).config.hidden_size == 32


@pytest.mark.drawn  # anew, over what the module began with
def test_a_finished_run_is_shown_again_and_not_trained(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [finished / "metrics.jsonl", finished / "README.md", finished / "run.json"]
    before = [path.read_bytes() for path in kept]
    again = (finished.parent / "text", *TOY, "--out", finished)
    for arguments in (("--resume", finished), again):
        assert bertsmith("pretrain", *arguments) == 0
        said = capsys.readouterr().out
        assert "finished after 24 steps" in said
        assert "held out: loss" in said
        assert "next: bertsmith predict" in said
        assert "warning: the text" not in said
    assert [path.read_bytes() for path in kept] == before


def test_a_run_whose_text_has_changed_since_says_so(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(finished.parent / "text", tmp_path / "text")
    shutil.copytree(finished, tmp_path / "run")
    record = json.loads((tmp_path / "run/run.json").read_text())
    record["request"]["texts"] = [str((tmp_path / "text").resolve())]
    write_json(tmp_path / "run/run.json", record)
    again = ("pretrain", tmp_path / "text", *TOY, "--out", tmp_path / "run")
    assert bertsmith(*again) == 0
    assert "the text has changed" not in capsys.readouterr().out
    with next((tmp_path / "text").iterdir()).open("a") as file:
        file.write("the dog [MASK] the river .\n")
    assert bertsmith(*again) == 0
    assert "warning: the text has changed since then" in capsys.readouterr().out


def test_the_final_evaluation_is_that_of_the_last_step(finished: Path) -> None:
    last = read_metrics(finished / "metrics.jsonl")[-1]
    assert f"| loss | {last['evaluation_loss']:.3f} nats" in (finished / "README.md").read_text()


def test_a_loss_that_is_no_number_stops_the_run_and_overwrites_nothing(
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Learner, "forward", _nan_from(step=13))
    for name, options, saved in (("each", (), 13), ("tenth", ("--record-every", "10"), 13)):
        out = tmp_path / name
        assert bertsmith("pretrain", finished / "corpus", *TOY_RUN, *options, "--out", out) == 2
        error = capsys.readouterr().err
        assert error.startswith("bertsmith: step 14: the loss is nan")
        assert f"the last good checkpoint is {out / 'checkpoints' / f'step-{saved:08d}'}" in error
        assert "--optimizer.learning-rate 0.0005, now 0.001" in error
        assert error.count("\n") == 1
        assert reached(out) == saved
        assert max(row["step"] for row in read_metrics(out / "metrics.jsonl")) <= 13
        weights = load_file(out / "checkpoints" / f"step-{saved:08d}" / "model.safetensors")
        assert all(bool(tensor.isfinite().all()) for tensor in weights.values())


def test_a_resumed_run_takes_the_threads_it_began_with_unless_others_are_given(
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(pretrain_command, "agreed", _once_after_steps(2))
        assert bertsmith("pretrain", finished / "corpus", *TOY_RUN, "--out", out) == 130
    record = json.loads((out / "run.json").read_text())
    assert record["versions"]["device"] == "cpu"
    monkeypatch.setattr(machine, "num_cores", lambda: 8)
    monkeypatch.setattr(pretrain_command, "agreed", lambda requested, processes: True)
    used: list[int | None] = []
    monkeypatch.setattr(machine, "set_threads", used.append)
    capsys.readouterr()
    assert bertsmith("pretrain", "--resume", out) == 130
    assert "warning" not in capsys.readouterr().out
    write_json(out / "run.json", {**record, "versions": {**record["versions"], "threads": "3"}})
    assert bertsmith("pretrain", "--resume", out, "--threads", "1") == 130
    assert "warning: threads 3 -> 1 since it began" in capsys.readouterr().out
    assert used == [1, 1]


@pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")
def test_a_run_in_fp16_goes_on_to_the_bit_and_where_there_is_none_in_fp32(
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    corpus, last = finished / "corpus", "checkpoints/step-00000024/model.safetensors"
    options = [*TOY_RUN, "--precision", "fp16"]
    assert bertsmith("pretrain", corpus, *options, "--out", tmp_path / "whole") == 0
    assert "fp32, products in fp16" in capsys.readouterr().out
    for name in ("halves", "elsewhere"):
        with monkeypatch.context() as patch:
            patch.setattr(pretrain_command, "agreed", _once_after_steps(2))
            assert bertsmith("pretrain", corpus, *options, "--out", tmp_path / name) == 130
    assert bertsmith("pretrain", "--resume", tmp_path / "halves") == 0
    for module in ("bertsmith.train.device", "bertsmith.runs.functions"):
        monkeypatch.setattr(f"{module}.multiplies_float16", lambda: False)
    monkeypatch.setattr("bertsmith.train.device.cpu_multiplies_bf16", lambda: False)
    capsys.readouterr()
    assert bertsmith("pretrain", "--resume", tmp_path / "elsewhere") == 0
    assert "warning: fp16_products yes -> none since it began" in capsys.readouterr().out
    whole, halves, elsewhere = (
        load_file(tmp_path / name / last) for name in ("whole", "halves", "elsewhere")
    )
    assert all(torch.equal(whole[name], halves[name]) for name in whole)
    assert not all(torch.equal(whole[name], elsewhere[name]) for name in whole)
    for name, weight in whole.items():
        assert (weight - elsewhere[name]).norm() <= 0.05 * weight.norm() + 1e-3


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "device cuda:0 is not here"),
        (["--precision", "fp16"], "fp16 needs an NVIDIA"),
        (["--model.direction", "left_to_right"], "masked_lm needs direction"),
        (["--accumulation", "9"], "8 sequences cannot be cut into 9 micro-batches"),
        (["--tensorboard"], "TensorBoard is not installed"),
        (["--held-out", "1.5"], "held_out must be at least 0 and below 1, found 1.5"),
        (["--loader-workers", "-1"], "loader_workers must not be negative, found -1"),
    ],
)
def test_what_cannot_start_is_refused_before_anything_is_written(
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr("bertsmith.train.device.multiplies_float16", lambda: False)
    text, out = write_text(tmp_path / "text"), tmp_path / "run"
    toy = [word for word in TOY if word not in ("--precision", "fp32")]
    assert bertsmith("pretrain", text, *toy, *options, "--out", out) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_another_run_does_not_overwrite_a_directory(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = finished.parent / "text"
    assert bertsmith("pretrain", text, *TOY, "--seed", "1", "--out", finished) == 2
    assert "holds another run" in capsys.readouterr().err


def test_the_weights_are_a_function_of_the_run_and_its_seed(finished: Path, tmp_path: Path) -> None:
    corpus = finished / "corpus"
    for name, seed in (("same", 0), ("other", 1)):
        assert (
            bertsmith("pretrain", corpus, *TOY_RUN, "--seed", seed, "--out", tmp_path / name) == 0
        )
    weights = [
        load_file(run / "checkpoints" / "step-00000024" / "model.safetensors")
        for run in (finished, tmp_path / "same", tmp_path / "other")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not all(torch.equal(weights[0][name], weights[2][name]) for name in weights[0])


def test_ctrl_c_saves_says_how_to_go_on_and_changes_no_bit(
    finished: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Saving only at the end, so that what the interruption saved is what the run goes on from.
    arguments = [finished / "corpus", *TOY_RUN, "--save-every", "24", "--out", tmp_path / "run"]
    with monkeypatch.context() as patch:
        patch.setattr(pretrain_command, "agreed", _once_after_steps(11))
        assert bertsmith("pretrain", *arguments) == cli.EXIT_INTERRUPTED
    said = capsys.readouterr().out
    assert "stopped after step 11, saved" in said
    assert f"bertsmith pretrain --resume {tmp_path / 'run'}" in said
    assert bertsmith("pretrain", *arguments) == 0
    assert "going on after step 11 of 24" in capsys.readouterr().out
    last = Path("checkpoints", "step-00000024", "model.safetensors")
    assert (tmp_path / "run" / last).read_bytes() == (finished / last).read_bytes()


@pytest.mark.parametrize(
    ("module", "function", "kept"),
    [
        (preparation, "learn_vocab", "nothing had been made yet"),
        (preparation, "build_corpus", "the vocabulary; to go on:"),
        (decision, "measure", "the vocabulary and the corpus; to go on:"),
    ],
)
def test_ctrl_c_before_the_first_step_says_what_is_kept_and_how_to_go_on(
    module: ModuleType,
    function: str,
    kept: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "run"
    arguments = [str(write_text(tmp_path / "text")), *TOY, "--plan-only", "--out", str(out)]
    monkeypatch.setattr("sys.argv", ["bertsmith", "pretrain", *arguments])
    monkeypatch.setattr(module, function, interrupted)
    assert bertsmith("pretrain", *arguments) == cli.EXIT_INTERRUPTED
    said = capsys.readouterr().out
    assert "stopped before the first step" in said
    assert kept in said
    assert shlex.join(["bertsmith", "pretrain", *arguments]) in said


def test_the_plan_is_printed_without_training(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert bertsmith("pretrain", finished / "corpus", *TOY_RUN, "--plan-only", "--out", out) == 0
    plan = capsys.readouterr().out
    for promised in (
        "6 steps of 8 sequences of at most 32 tokens", "linear to 0 at step 24", "parameters",
        "tokens/s", "unigram line", "masked_lm, next_sentence", "GiB",
    ):  # fmt: skip
        assert promised in plan
    assert not (out / "run.json").exists()


def test_minutes_shorter_than_the_measuring_are_told_in_the_plan(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (finished / "corpus", *TOY_RUN, "--minutes", "0.0001", "--out", tmp_path / "run")
    assert bertsmith("pretrain", *arguments, "--plan-only") == 0
    plan = capsys.readouterr().out
    assert "warning: the 0.0001 minutes asked for are over before the first step" in plan


def test_steps_are_spread_over_the_phases_in_their_shares(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = (finished / "corpus", *TOY_RUN, "--steps", "48", "--out", tmp_path / "run")
    assert bertsmith("pretrain", *arguments, "--plan-only") == 0
    plan = capsys.readouterr().out
    assert plan.count("12 steps of 8 sequences") == 4
    # The warm-up was typed, so it stays.
    assert "over 4 steps, then linear to 0 at step 48" in " ".join(plan.split())
    assert bertsmith("pretrain", *arguments, "--minutes", "5") == 2
    assert "give --steps or --minutes, not both" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("num_documents", "message"),
    [(1, "next_sentence needs at least 2 documents"), (0, "no text found in 0 files")],
)
def test_text_that_cannot_be_trained_on_is_refused_and_leaves_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    num_documents: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = write_text(tmp_path / "text", num_documents=num_documents)
    if not num_documents:
        (text / "text.txt").unlink()
    assert bertsmith("pretrain", text, *TOY, "--held-out", "0") == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [text]


def test_a_single_held_out_document_evaluates_the_language_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = write_text(tmp_path / "text", num_documents=12), tmp_path / "run"
    assert bertsmith("pretrain", text, *TOY, "--held-out", "0.08", "--out", out) == 0
    assert "warning: one document is held out" in capsys.readouterr().out
    evaluated = [row for row in read_metrics(out / "metrics.jsonl") if "evaluation_loss" in row]
    assert [row["step"] for row in evaluated] == [8, 16, 24]
    assert all("evaluation_next_accuracy" not in row for row in evaluated)
    assert "| loss |" in (out / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a folder of text"),
        (["--resume", "/nowhere"], "not the directory of a run"),
        (["/nowhere"], "/nowhere"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_to_do(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert bertsmith("pretrain", *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_command_is_recorded_as_it_was_typed(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_text())
    assert shlex.split(record["command"])[0] == "bertsmith"


def _nan_from(step: int) -> object:
    """Stands for `Learner.forward`: the loss of this step and the later ones is no number."""
    forward = Learner.forward

    def broken(self: Learner, batch: PretrainBatch, number: int) -> Losses:
        losses = forward(self, batch, number)
        return replace(losses, loss=losses.loss * torch.nan) if number >= step else losses

    return broken


def _once_after_steps(count: int) -> object:
    """Stands for `agreed`: true at the `count`-th look."""
    looks = iter(range(1, 1_000_000))
    return lambda requested, processes: requested or next(looks) == count
