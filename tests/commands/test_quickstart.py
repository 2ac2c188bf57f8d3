"""`bertsmith quickstart`: its text, and what it promises at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands import quickstart
from bertsmith.commands.quickstart import QUESTIONS, write_interpreter_text
from bertsmith.reading.interpreter import InterpreterDocument
from bertsmith.tasks.own.texts import TextColumns
from bertsmith.tasks.own.texts import read as read_texts
from bertsmith.train.log import read_metrics


def test_the_text_is_one_json_object_a_document(tmp_path: Path) -> None:
    documents = [
        InterpreterDocument(name="with", paragraphs=("One sentence. Another.", "A third.")),
        InterpreterDocument(name="shelf", paragraphs=("Löwis wrote it. It works.",)),
    ]
    write_interpreter_text(tmp_path / "text.jsonl", documents)
    rows = [json.loads(line) for line in (tmp_path / "text.jsonl").read_text().splitlines()]
    assert rows == [
        {"name": "with", "text": "One sentence. Another.\nA third."},
        {"name": "shelf", "text": "Löwis wrote it. It works."},
    ]


@pytest.mark.parametrize("minutes", ["0", "-1", "inf", "nan"])
def test_what_is_no_time_is_refused_before_anything_is_written(
    minutes: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["quickstart", f"--minutes={minutes}", "--out", str(tmp_path / "q")]) == 2
    assert "minutes must be above 0 and finite, found" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "interpreter_documents", lambda: pytest.fail("read"))
    (tmp_path / "file").write_text("in the way")
    assert cli.main(["quickstart", "--out", str(tmp_path / "file")]) == 2
    assert "the quickstart's directory" in capsys.readouterr().err


def test_every_question_has_a_mask() -> None:
    assert all(text.count("[MASK]") == 1 for text in QUESTIONS)


@pytest.mark.slow
def test_it_beats_the_unigram_line_and_the_majority_class_within_five_minutes(
    tmp_path: Path,
) -> None:
    began = time.monotonic()
    # As a user has it: all cores and the kernels, which the tests beside it do without.
    ended = subprocess.run(
        [sys.executable, "-m", "bertsmith", "quickstart", "--out", str(tmp_path)],
        env={name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert time.monotonic() - began < 300
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    last = [row for row in read_metrics(tmp_path / "run" / "metrics.jsonl")][-1]
    assert last["evaluation_loss"] < record["unigram_entropy"] - 0.5
    assert last["evaluation_next_accuracy"] >= last["evaluation_next_majority"] + 0.10
    scores = json.loads((tmp_path / "fine-tuned" / "scores.json").read_text())
    dev = read_texts(tmp_path / "chapters" / "dev.csv", TextColumns()).examples
    majority = max(Counter(each.labels for each in dev).values()) / len(dev)
    assert scores["scores"]["accuracy"] > majority + 0.2
    assert "bertsmith pretrain FOLDER" in ended.stdout
    assert "--texts FILE.csv" in ended.stdout
    assert (tmp_path / "run" / "curves.png").is_file()
