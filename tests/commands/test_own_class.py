"""A task class of a person's own is learned, resumed and scored, and imported only when named."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from bertsmith.tasks.imported import imported_class, read_own_task
from bertsmith.tasks.stored import read_task
from tests.commands.own_class import begun
from tests.commands.small_run import killed_at
from tests.commands.small_task import bertsmith, score_lines

pytestmark = pytest.mark.usefixtures("own_class")


def test_a_class_of_ones_own_is_learned_resumed_and_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "whole")) == 0
    told = capsys.readouterr().out.splitlines()
    assert "read by emphasis:Emphasis" in "".join(told)
    content = json.loads((tmp_path / "whole" / "best" / "task.json").read_text())
    assert content["kind"] == "emphasis:Emphasis"
    assert content["fields"] == {"names": ["calm", "loud"], "max_tokens": 16}
    assert bertsmith(*shlex.split(told[-1])[1:]) == 0
    score = score_lines(told)[0]
    assert score in capsys.readouterr().out.splitlines()
    killed_at(5, *begun(tmp_path / "resumed"))
    assert bertsmith("finetune", "--resume", tmp_path / "resumed") == 0
    for name in ("best/model.safetensors", "best/task.json", "scores.json"):
        whole, resumed = ((tmp_path / run / name).read_bytes() for run in ("whole", "resumed"))
        assert whole == resumed, name


def test_a_checkpoint_alone_never_imports_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "run"), "--epochs", "0.3") == 0
    (tmp_path / "imported").unlink()
    sys.modules.pop("emphasis")
    capsys.readouterr()
    (tmp_path / "a.csv").write_text("text,label\nthe dog,a\nthe cat,b\n")
    assert bertsmith("evaluate", tmp_path / "run", "--texts", "a.csv") == 2
    assert (
        "to run that code, name it with --task-class emphasis:Emphasis" in capsys.readouterr().err
    )
    asked = ("--task-class", "emphasis:Half", "--examples", "dev.txt")
    assert bertsmith("evaluate", tmp_path / "run", *asked) == 2
    assert (
        "is of emphasis:Emphasis, and not of --task-class emphasis:Half" in capsys.readouterr().err
    )
    with pytest.raises(ValueError, match="not imported unasked"):
        read_task(tmp_path / "run" / "best")
    assert not (tmp_path / "imported").exists()
    task = read_own_task(tmp_path / "run" / "best", "emphasis:Emphasis")
    assert task == imported_class("emphasis:Emphasis")(("calm", "loud"), 16)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("emphasis", "--task-class 'emphasis' names no class: expected module:Class"),
        ("../emphasis:Emphasis", "names no class"),
        ("nowhere:Emphasis", "no module 'nowhere' in"),
        ("nowhere.inside:Emphasis", "no module 'nowhere.inside' in"),
        ("emphasis:Emphasys", "emphasis has no 'Emphasys'; did you mean 'Emphasis'?"),
        ("emphasis:Plain", "must be a frozen dataclass"),
        ("emphasis:Half", "has no read, of, head, encode, decode, score"),
        ("emphasis:Deep", "its fields must be texts, numbers, booleans, None and tuples"),
    ],
)
def test_what_is_no_task_class_is_told(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "run", name)) == 2
    assert told in capsys.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists()


def test_how_to_divide_its_examples_must_be_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = [each for each in begun(tmp_path / "run") if each not in ("--dev", "dev.txt")]
    assert bertsmith(*begin) == 2
    assert "give the file to evaluate on with --dev" in capsys.readouterr().err
    begin = [each for each in begin if each not in ("--examples", "train.txt")]
    assert bertsmith(*begin) == 2
    assert "name the file to read with --examples" in capsys.readouterr().err
