"""A run that learned by a task class of a person's own answers what the class reads."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bertsmith.inference import Predictor
from tests.commands.own_class import begun
from tests.commands.small_task import bertsmith

pytestmark = pytest.mark.usefixtures("own_class")


@pytest.fixture
def asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Asks a run that learned by a class; its code is not imported again by having run."""
    assert bertsmith(*begun(tmp_path / "run"), "--epochs", "0.3") == 0
    capsys.readouterr()
    (tmp_path / "imported").unlink()
    sys.modules.pop("emphasis")

    def ask(name: str, *options: object) -> tuple[int, str]:
        path = tmp_path / "run" / "best" / "task.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "kind": name}))
        status = bertsmith("predict", tmp_path / "run", "--task-class", name, *options)
        told = capsys.readouterr()
        return status, told.err if status else told.out

    return ask


def test_every_example_of_a_file_gets_the_answer_that_evaluation_scores(
    asked: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, told = asked("emphasis:Emphasis", "--file", "dev.txt")
    answers = told.splitlines()
    assert (status, len(answers)) == (0, 8)
    assert set(answers) <= {"calm", "loud"}
    _, told = asked("emphasis:Emphasis", "--file", "dev.txt", "--jsonl")
    assert [json.loads(line) for line in told.splitlines()] == [{"answer": a} for a in answers]
    assert asked("emphasis:Emphasis", "--file", "dev.txt", "--out", "answers.csv")[0] == 0
    assert (tmp_path / "answers.csv").read_text().splitlines() == [
        "answer,fault",
        *(f"{answer}," for answer in answers),
    ]
    run, lines = tmp_path / "run", (tmp_path / "dev.txt").read_text().splitlines()
    assert Predictor.load(run, task_class="emphasis:Emphasis").own_answers(lines) == answers
    gold = ["loud" if line.endswith("!") else "calm" for line in lines]
    right = sum(answer == wanted for answer, wanted in zip(answers, gold, strict=True))
    capsys.readouterr()
    named = ("--task-class", "emphasis:Emphasis", "--examples", "dev.txt")
    assert bertsmith("evaluate", run, *named) == 0
    assert f"accuracy  {right / 8:.4g}  (95%" in capsys.readouterr().out


def test_a_typed_text_is_answered_where_the_class_makes_an_example_of_it(
    asked: Callable[..., tuple[int, str]],
) -> None:
    status, told = asked("emphasis:Emphasis", "the dog")
    assert status == 2
    assert "Emphasis reads files, and no text by itself: name a file with --file" in told
    status, told = asked("emphasis:Typed", "the dog", "the cat", "--jsonl")
    of_dog, of_cat = (json.loads(line)["answer"] for line in told.splitlines())
    assert of_dog == ["the dog", 1]
    assert of_cat == "{'text': 'the cat', 'kind': {1}}"
    status, told = asked("emphasis:Short", "the dog", "the cat")
    assert (status, "Short: its decode gave 1 answer to 2 examples" in told) == (2, True)


def test_only_a_class_that_is_named_and_the_runs_own_is_imported_to_predict(
    asked: Callable[..., tuple[int, str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert bertsmith("predict", run, "the dog") == 2
    assert "name it with --task-class emphasis:Emphasis" in capsys.readouterr().err
    assert bertsmith("predict", run, "the dog", "--task-class", "emphasis:Typed") == 2
    assert "and not of --task-class emphasis:Typed" in capsys.readouterr().err
    with pytest.raises(ValueError, match="not imported unasked"):
        Predictor.load(run).classify(["the dog"])
    with pytest.raises(ValueError, match="loaded without a task class"):
        Predictor.load(run).own_answers(["the dog"])
    assert not (tmp_path / "imported").exists()
    with pytest.raises(ValueError, match="ask it with own_answers"):
        Predictor.load(run, task_class="emphasis:Emphasis").classify(["the dog"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "reads files, and no pipe"),
        (("--file", "-"), "reads files, and no pipe"),
        (("--file", "nowhere.txt"), "nowhere.txt: no such file"),
        (("--file", "dev.txt", "--columns", "a"), "--columns says nothing to a task class of your"),
        (("--squad", "dev.json", "--out", "x"), "--squad says nothing to a task class of your own"),
    ],
)
def test_what_a_class_of_ones_own_cannot_be_asked_is_refused_at_once(
    options: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith("predict", "run", "--task-class", "emphasis:Emphasis", *options) == 2
    assert told in " ".join(capsys.readouterr().err.split())
