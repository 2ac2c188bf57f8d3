"""A run's model fine-tuned further: more examples first, as the paper's TriviaQA before SQuAD."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints.store import load
from tests.commands import small_files
from tests.commands.small_task import RUN, bertsmith

LITTLE = ("--optimizer.learning-rate", "0", "--epochs", "0.3")
"""Of training on: nothing moves, so that what came from the first run is seen."""


def test_classes_go_on_from_a_runs_best_model_with_its_head(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = ("--glue", folder / "glue", *RUN, *LITTLE)
    shutil.copytree(folder / "run", tmp_path / "first")
    capsys.readouterr()
    begin = ("finetune", tmp_path / "first", *files, "--keep-head", "--out", tmp_path / "second")
    assert bertsmith(*begin) == 0
    told = capsys.readouterr().out
    step = json.loads((folder / "run" / "scores.json").read_text())["step"]
    command = json.loads((folder / "run" / "run.json").read_text())["command"]
    origin = f"first: step {step}, the best on Dev, of `{command}`, from {folder / 'model'}"
    assert "first/best: 2 layers of 32" in told
    assert f"from        {origin}" in told.replace("from      ", "from      ")
    assert "the model's own head is trained on" in told
    assert origin in (tmp_path / "second" / "README.md").read_text()
    first, second = load(folder / "run"), load(tmp_path / "second")
    assert first.head is not None
    assert second.head is not None
    assert torch.equal(first.head.scores.weight, second.head.scores.weight)

    shutil.rmtree(tmp_path / "first")  # what it was stands in the record of the second
    begin = ("finetune", tmp_path / "second", *files, "--out", tmp_path / "third")
    assert bertsmith(*begin) == 0
    record = json.loads((tmp_path / "third" / "run.json").read_text())
    assert record["ancestry"][0].startswith("second: step ")
    assert record["ancestry"][1:] == [origin]
    assert "the one of the model is left aside" in capsys.readouterr().out


def test_spans_go_on_from_another_set_of_questions(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra, own = (small_files.squad(tmp_path / f"{n}.json", 24, n) for n in (1, 2))
    dev = small_files.squad(tmp_path / "dev.json", 8, 3)
    shared = ("--dev", dev, *small_files.SPANS, *small_files.RUN)
    begin = ("finetune", folder / "model", "--squad", extra, *shared, "--out", tmp_path / "extra")
    assert bertsmith(*begin) == 0
    capsys.readouterr()
    begin = ("finetune", tmp_path / "extra", "--squad", own, *shared, "--keep-head", *LITTLE)
    assert bertsmith(*begin, "--out", tmp_path / "own") == 0
    assert "the model's own head is trained on" in capsys.readouterr().out
    first, second = load(tmp_path / "extra"), load(tmp_path / "own")
    assert first.head is not None
    assert second.head is not None
    assert torch.equal(first.head.scores.weight, second.head.scores.weight)
    scores = [json.loads((tmp_path / run / "scores.json").read_text()) for run in ("extra", "own")]
    assert scores[0]["scores"] == scores[1]["scores"]


def test_a_head_of_other_labels_is_refused_with_both(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.csv"
    rows = [f"the dog {'a' * number},{'yes' if number % 2 else 'no'}" for number in range(1, 21)]
    texts.write_text("\n".join(["text,label", *rows]) + "\n")
    begin = ("finetune", folder / "run", "--texts", texts, "--keep-head", "--out", tmp_path / "out")
    assert bertsmith(*begin) == 2
    assert "its labels are 0, 1, the task's no, yes" in capsys.readouterr().err
