"""Every kind of file that the command line takes is learned, scored, resumed, and refused."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bertsmith.checkpoints.store import load
from bertsmith.tasks.stored import read_task
from tests.commands.small_files import (
    RUN,
    SPANS,
    TEXTS,
    choices,
    pairs,
    squad,
    swag,
    tagged,
    texts,
)
from tests.commands.small_run import killed_at
from tests.commands.small_task import bertsmith, write_model


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of file."""

    option: str
    write: Callable[[Path, int, int], Path]
    """A path without its suffix, how many examples, a key that draws others -> the file."""
    recipe: str
    task: str
    metric: str
    options: tuple[str, ...] = ()

    def files(self, folder: Path) -> tuple[object, ...]:
        """Writes two files, and names them."""
        train, dev = self.write(folder / "train", 32, 1), self.write(folder / "dev", 8, 2)
        return (f"--{self.option}", train, "--dev", dev, *self.options)


KINDS = {
    "squad": Kind(
        option="squad", recipe="squad", task="SpanAnswering", metric="f1", options=SPANS,
        write=lambda path, count, key: squad(path.with_suffix(".json"), count, key),
    ),
    "squad2": Kind(
        option="squad", recipe="squad2", task="SpanAnswering", metric="f1", options=SPANS,
        write=lambda path, count, key: squad(
            path.with_suffix(".json"), count, key, some_impossible=True
        ),
    ),
    "tagged": Kind(
        option="tagged", recipe="ner", task="Tagging", metric="f1",
        write=lambda path, count, key: tagged(path.with_suffix(".txt"), count, key),
    ),
    "swag": Kind(
        option="choices", recipe="swag", task="MultipleChoice", metric="accuracy",
        write=lambda path, count, key: swag(path.with_suffix(".csv"), count, key),
    ),
    "arc": Kind(
        option="choices", recipe="swag", task="MultipleChoice", metric="accuracy",
        write=lambda path, count, key: choices(path.with_suffix(".jsonl"), count, key),
    ),
    "labels": Kind(
        option="texts", recipe="glue", task="Classification", metric="accuracy", options=TEXTS,
        write=lambda path, count, key: texts(path.with_suffix(".csv"), count, key),
    ),
    "several labels": Kind(
        option="texts", recipe="glue", task="Classification", metric="f1",
        options=(*TEXTS, "--separator", ";", "--problem", "multi_label"),
        write=lambda path, count, key: texts(
            path.with_suffix(".csv"), count, key, problem="multi_label"
        ),
    ),
    "numbers": Kind(
        option="texts", recipe="glue", task="Classification", metric="spearman",
        options=(*TEXTS, "--problem", "regression", "--metrics", "spearman"),
        write=lambda path, count, key: texts(
            path.with_suffix(".csv"), count, key, problem="regression"
        ),
    ),
    "pairs": Kind(
        option="texts", recipe="glue", task="Classification", metric="macro_f1",
        options=("--text-columns", "first", "second", "--metrics", "macro_f1", "accuracy"),
        write=lambda path, count, key: pairs(path.with_suffix(".jsonl"), count, key),
    ),
}  # fmt: skip


def scores_in(told: list[str]) -> list[str]:
    return [line for line in told if "(95%" in line]


@pytest.fixture(autouse=True)
def _keep_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned nothing."""
    return write_model(tmp_path_factory.mktemp("sources") / "model")


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_is_learned_and_its_printed_command_scores_the_same(
    name: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, run = KINDS[name], tmp_path / "run"
    begin = ("finetune", model, *kind.files(tmp_path), *RUN, "--out", run)
    assert bertsmith(*begin) == 0
    told = capsys.readouterr().out.splitlines()
    record = json.loads((run / "run.json").read_text())
    assert (record["run"]["name"], record["task"]["kind"]) == (kind.recipe, kind.task)
    task = read_task(load(run).directory)
    assert task is not None
    scores = scores_in(told)
    assert scores[0].split()[0] == kind.metric
    assert bertsmith(*shlex.split(told[-1])[1:]) == 0
    assert scores_in(capsys.readouterr().out.splitlines()) == scores


def test_killed_and_resumed_gives_the_same_bytes(model: Path, tmp_path: Path) -> None:
    files = KINDS["squad2"].files(tmp_path)
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    begin = ("finetune", model, *files, *RUN, "--out")
    assert bertsmith(*begin, whole) == 0
    killed_at(5, *begin, resumed)
    assert bertsmith("finetune", "--resume", resumed) == 0
    for name in ("best/model.safetensors", "best/task.json", "scores.json"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes(), name


def test_without_a_dev_file_a_share_is_held_out_and_scored_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    train = squad(tmp_path / "places.json", 40, 1)
    options = (*SPANS, "--dev-share", "0.2", "--split-seed", "3", "--epochs", "0.5")
    assert bertsmith("finetune", model, "--squad", train, *RUN, *options) == 0
    told = capsys.readouterr().out.splitlines()
    assert any("to evaluate on: 8 of the 40 examples of" in line for line in told)
    assert (tmp_path / "runs" / "model-squad-places" / "best").is_dir()
    assert bertsmith(*shlex.split(told[-1])[1:]) == 0
    again = capsys.readouterr().out.splitlines()
    assert scores_in(again) == scores_in(told)
    assert any("to evaluate on, 8 examples" in line for line in again)
    assert bertsmith("evaluate", "runs/model-squad-places", "--squad", train) == 0
    assert "places.json, 40 examples" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--squad", "nowhere.json"), "nowhere.json: no such file"),
        (("--squad", "{squad}", "--dev", "nowhere.json"), "nowhere.json: no such file"),
        (("--squad", "{squad}", "--glue", "."), "--glue and --squad name examples of different"),
        (("--squad", "{squad}", "--task", "RTE"), "--task says nothing of the examples of --squad"),
        (("--squad", "{squad}", "--doc-stride", "0"), "doc_stride must be at least 1, found 0"),
        (("--squad", "{squad}", "--max-tokens", "64"), "doc_stride must be at most"),
        (("--squad", "{squad}", "--dev", "{squad2}", "--squad-version", "1.1"),
         "squad2.json: data[0].paragraphs[0].qas[0]: the question has no answer, as have 2 of 8"),
        (("--squad", "{squad}", "--dev", "{squad2}", "--dev-share", "0.2"), "leave one of them"),
        (("--squad", "{squad}", "--dev-share", "1.5"), "must be between 0 and 1: 1.5"),
        (("--glue", "{folder}", "--task", "RTE", "--doc-stride", "3"), "--doc-stride says nothing"),
    ],
)  # fmt: skip
def test_mistakes_are_told_in_one_line_before_anything_is_written(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    places = {
        "folder": tmp_path,
        "squad": squad(tmp_path / "squad.json", 8, 1),
        "squad2": squad(tmp_path / "squad2.json", 8, 2, some_impossible=True),
    }
    asked = [each.format(**places) for each in arguments]
    assert bertsmith("finetune", model, *asked, "--out", tmp_path / "run") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line
    assert not list(tmp_path.rglob("run.json"))
