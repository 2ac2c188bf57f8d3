"""`bertsmith finetune` from a model and labelled files to a model that answers; and wrongly."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints.store import load
from bertsmith.commands.finetune_request import _settled
from bertsmith.runs.ancestry import ancestry
from bertsmith.tasks.stored import read_task
from bertsmith.train.log import read_metrics
from tests.commands.small_run import killed_at
from tests.commands.small_task import NUM_STEPS, RUN, begun, bertsmith, write_glue


def test_a_copy_of_a_checkpoint_is_a_model_of_no_run(folder: Path) -> None:
    (step,) = (folder / "run" / "checkpoints").glob("step-*")
    assert ancestry(step)
    assert ancestry(step.with_name(f"{step.name}-copy")) == ()


def test_the_run_loads_as_its_best_model_which_has_learned(folder: Path) -> None:
    run, loaded = folder / "run", load(folder / "run")
    rows = [row for row in read_metrics(run / "metrics.jsonl") if "is_best" in row]
    assert [row["step"] for row in rows] == [5, 10, 15, 20, 25, 30]
    scores = json.loads((run / "scores.json").read_text())
    best = max(rows, key=lambda row: float(row["evaluation_accuracy"] or 0.0))
    assert scores["step"] == best["step"]
    assert scores["scores"] == {"accuracy": best["evaluation_accuracy"]}
    assert scores["scores"]["accuracy"] >= 0.9
    interval = scores["intervals_95"]["accuracy"]
    assert (interval is None) == (scores["scores"]["accuracy"] == 1.0)
    assert loaded.directory == run / "best"
    assert loaded.head is not None
    assert loaded.head.config.labels == ("0", "1")
    task = read_task(loaded.directory)
    assert task is not None
    assert task.head == loaded.head.config


def test_a_run_is_scored_by_its_own_model_where_one_of_the_project_has_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "model", tmp_path / "models" / "mine")  # without a task head
    assert bertsmith(*begun(folder, Path("mine"))) == 0
    mine, same = (json.loads((each / "scores.json").read_text("utf-8")) for each in
                  (tmp_path / "mine", folder / "run"))  # fmt: skip
    assert mine == same


def test_a_model_is_called_by_its_name_before_a_path_and_a_path_is_kept_whole(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in ("named", "models/named", "unnamed"):
        shutil.copytree(folder / "model", tmp_path / place)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "model.ckpt-7.index").touch()
    assert [_settled(each) for each in ("named", "./named", "unnamed", "bundle/model.ckpt-7")] == [
        "named",
        *(str(tmp_path / each) for each in ("named", "unnamed", "bundle/model.ckpt-7")),
    ]
    assert _settled("owner/of-the-hub") == "owner/of-the-hub"


def test_one_of_several_tensorflow_checkpoints_is_the_one_that_a_run_began_with(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not the newest beside it, which the directory stands for."""
    several, out = tmp_path / "several", tmp_path / "run"
    for step, model in ((100, folder / "model"), (200, folder / "run")):
        left_out = ("--without-head",) if step == 200 else ()
        made = tmp_path / str(step)
        assert bertsmith("convert", model, made, "--to", "tensorflow", *left_out) == 0
        several.mkdir(exist_ok=True)
        for file in made.iterdir():
            name = file.name.replace("bert_model.ckpt", f"model.ckpt-{step}")
            shutil.copyfile(file, several / name)
    asked = ("finetune", several / "model.ckpt-100", "--glue", folder / "glue", *RUN, "--out", out)
    killed_at(1, *asked)
    record = json.loads((out / "run.json").read_text())
    assert record["model"] == str((several / "model.ckpt-100").resolve())
    capsys.readouterr()
    assert bertsmith("finetune", "--resume", out) == 0
    assert "several/model.ckpt-100: 2 layers" in capsys.readouterr().out
    weights = "best/model.safetensors"
    assert (out / weights).read_bytes() == (folder / "run" / weights).read_bytes()


def test_run_json_holds_all_that_decides(folder: Path) -> None:
    record = json.loads((folder / "run" / "run.json").read_text())
    assert record["kind"] == "fine-tuning"
    assert (record["run"]["batch_size"], record["num_steps"]) == (4, NUM_STEPS)
    assert record["model"] == str((folder / "model").resolve())
    assert record["request"]["examples"] == {"glue": str(folder / "glue"), "task": "SST-2"}
    assert record["task"]["kind"] == "Classification"
    assert record["versions"]["threads"] == "1"


def test_the_plan_comes_first_and_alone_writes_nothing(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(folder, tmp_path / "run"), "--plan-only") == 0
    told = capsys.readouterr().out
    for line in (
        "40 examples of 8 tokens in the mean, 8 at most; none is cut",
        "0 20 (50.0%), 1 20 (50.0%)",
        "0 10 (50.0%), 1 10 (50.0%)",
        "30 of 4 examples: 3 epochs; seed 0",
        "bert_adam: 0 -> 0.001 over 3 steps, then linear to 0 at step 30",
        "a new head of 2 scores, drawn by seed 0",
        " tokens/s (measured), ",
    ):
        assert line in told
    assert not (tmp_path / "run").exists()


def test_a_finished_run_is_only_scored_again_and_evaluate_says_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = (folder / "run" / "metrics.jsonl").read_bytes()
    assert bertsmith(*begun(folder, folder / "run")) == 0
    told = capsys.readouterr().out
    line = next(each for each in told.splitlines() if each.startswith("  accuracy"))
    *_, next_command = told.splitlines()
    assert "step 5/30" not in told
    assert (folder / "run" / "metrics.jsonl").read_bytes() == metrics
    assert bertsmith(*shlex.split(next_command)[1:]) == 0
    assert line in capsys.readouterr().out.splitlines()


def test_the_seed_and_the_last_model_are_choices(folder: Path, tmp_path: Path) -> None:
    other = (*begun(folder, tmp_path / "run"), "--seed", "1", "--no-keep-best", "--epochs", "0.5")
    assert bertsmith(*other) == 0
    loaded = load(tmp_path / "run")
    assert loaded.directory.name == "step-00000005"
    assert json.loads((tmp_path / "run" / "scores.json").read_text())["step"] == 5
    first = load(folder / "run").model.bert.pooler
    assert first is not None
    assert loaded.model.bert.pooler is not None
    assert not torch.equal(first.weight, loaded.model.bert.pooler.weight)
    assert bertsmith("convert", tmp_path / "run", tmp_path / "out", "--to", "hugging-face") == 0
    assert load(tmp_path / "out").head is not None


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "name a model (bertsmith finetune mini-en --glue DIR --task RTE)"),
        (("{model}",), "name the examples: --glue DIR --task RTE"),
        (("{model}", "--glue", "nowhere", "--task", "RTE"), "nowhere: no such directory of GLUE"),
        (("{model}", "--glue", "{glue}", "--task", "RTX"), "no task 'RTX' in GLUE"),
        (("{model}", "--glue", "{glue}", "--task", "RTE"), "RTE has no train.tsv or .tsv.gz"),
        (("nomodel/", *("--glue", "{glue}"), *RUN), "no model"),
        (("{model}", "--glue", "{glue}", *RUN, "--max-tokens", "6", "--frozen-layers", "9"),
         "frozen_layers is 9, and the model has 2 layers"),
        (("{model}", "--glue", "{glue}", *RUN, "--keep-head"), "and it has none"),
        (("{model}", "--glue", "{glue}", *RUN, "--accumulation", "5"), "cannot be cut into 5"),
        (("{model}", "--glue", "{glue}", *RUN, "--device", "tpu"), "unknown device 'tpu'"),
        (("{model}", "--glue", "{glue}", *RUN, "--recipe", "glu"), "did you mean 'glue'"),
        (("--resume", "{run}", "--seed", "3"), "--resume takes everything from"),
        (("--resume", "{model}"), "is not the directory of a run"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line_before_anything_is_written(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    places = {name: folder / name for name in ("model", "glue", "run")}
    assert bertsmith("finetune", *(each.format(**places) for each in arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert list(tmp_path.iterdir()) == []


def test_several_processes_are_refused(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in (("RANK", "0"), ("WORLD_SIZE", "2"), ("LOCAL_RANK", "0")):
        monkeypatch.setenv(name, value)
    assert bertsmith(*begun(folder, tmp_path / "run")) == 2
    assert "start it without torchrun" in capsys.readouterr().err


def test_another_run_in_the_directory_and_changed_examples_are_refused(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(folder, folder / "run"), "--seed", "7") == 2
    assert "holds another run" in capsys.readouterr().err
    write_glue(tmp_path / "glue")
    directory = tmp_path / "run"
    begin = ("finetune", folder / "model", "--glue", tmp_path / "glue", *RUN, "--epochs", "0.2")
    assert bertsmith(*begin, "--out", directory) == 0
    capsys.readouterr()
    file = tmp_path / "glue" / "SST-2" / "train.tsv"
    learned = file.read_text()
    file.write_text(learned.replace("hairy", "dog"))
    assert bertsmith("finetune", "--resume", directory) == 2
    others = "are others than those the run began with (`bertsmith"
    told = f"the training examples, and perhaps those of Dev, {others}"
    assert told in capsys.readouterr().err
    file.write_text(learned)
    dev = tmp_path / "glue" / "SST-2" / "dev.tsv"
    dev.write_text(dev.read_text().replace("hairy", "dog"))
    assert bertsmith("finetune", "--resume", directory) == 2
    assert f"the Dev examples {others}" in capsys.readouterr().err
    record = json.loads((directory / "run.json").read_text("utf-8"))
    del record["train_fingerprint"]
    (directory / "run.json").write_text(json.dumps(record), "utf-8")
    assert bertsmith("finetune", "--resume", directory) == 2
    assert f"the examples {others}" in capsys.readouterr().err


def test_an_unknown_label_in_dev_stops_before_training_with_its_line(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "glue", tmp_path / "glue")
    with (tmp_path / "glue" / "SST-2" / "dev.tsv").open("a") as file:
        file.write("the dog\t2\n")
    begin = ("finetune", folder / "model", "--glue", tmp_path / "glue", *RUN)
    assert bertsmith(*begin, "--out", tmp_path / "run") == 2
    assert "dev.tsv:22: label '2' is none of the 2" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("model", "holds no task head: fine-tune it first"),
        ("run/best/", "has no task.json"),
    ],
)
def test_what_cannot_be_evaluated_is_told(
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    model: str,
    told: str,
) -> None:
    shutil.copytree(folder / model, tmp_path / "model")
    (tmp_path / "model" / "task.json").unlink(missing_ok=True)
    asked = ("--glue", folder / "glue", "--task", "SST-2")
    assert bertsmith("evaluate", tmp_path / "model", *asked) == 2
    assert told in capsys.readouterr().err


def test_commands_of_pretraining_say_what_the_directory_holds(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith("pretrain", "--resume", folder / "run") == 2
    assert "holds a fine-tuning run, expected one of pre-training" in capsys.readouterr().err
