"""What a task class of a person's own does wrong is told in a line, before training and after."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.faulty_classes import CODE
from tests.commands.own_class import begun
from tests.commands.small_task import bertsmith


@pytest.fixture(autouse=True)
def _faults(own_class: None, tmp_path: Path) -> Iterator[None]:
    """Beside the class that is right."""
    (tmp_path / "faults.py").write_text(CODE)
    sys.modules.pop("faults", None)
    yield
    sys.modules.pop("faults", None)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("BadRead", "read failed with KeyError: 'lines' (faults.py:"),
        ("BadOf", "of failed with ValueError: train.txt:3: no emphasis (faults.py:"),
        ("BadHead", "head gave 2, expected a TaskHeadConfig"),
        ("NoNotes", "encode failed with AttributeError: type object 'Encoded' has no attribute 'n"),
        (
            "BadEncode",
            "encode failed with AttributeError: 'tuple' object has no attribute 'texts' (f",
        ),
        (
            "NotEncoded",
            "encode failed with AttributeError: 'LabelledItems' object has no attribute 'labelled'",
        ),
        ("OtherTokens", "encode gave the token 5000, expected 0 to "),
        ("OtherLabel", "encode gave the label 2, expected 0 to 1"),
        ("TwoTargets", "encode gave 2 targets for item 1, expected 1"),
        ("BareTargets", "encode failed with TypeError: object of type 'int' has no len()"),
        ("BadDecode", "decode failed with IndexError: tuple index out of range (faults.py:"),
        ("TooFew", "decode gave 1 answer to 8 examples, expected one to each"),
        ("NoList", "decode gave generator, expected a list with an answer to each of 8 examples"),
        ("BadScore", "score failed with ZeroDivisionError: division by zero (faults.py:"),
        (
            "OfFewer",
            "score of examples drawn anew, as for an interval, failed with ZeroDivisionError: div",
        ),
        ("NoScores", "score gave {}, expected a number by name"),
        ("NoNumber", "score gave np.float32(0.5) for 'accuracy', expected a float"),
    ],
)
def test_what_a_class_does_wrong_is_told_before_training(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "run", f"faults:{name}")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--task-class faults:{name}: its {told}" in line
    assert not (tmp_path / "run" / "run.json").exists()


def test_what_a_class_does_wrong_is_told_in_evaluation_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learned(tmp_path / "run", "faults:BadScore")
    capsys.readouterr()
    named = ("--task-class", "faults:BadScore", "--examples", "dev.txt")
    assert bertsmith("evaluate", tmp_path / "run", *named) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--task-class faults:BadScore: its score failed with ZeroDivisionError" in line
    assert "BERTSMITH_TRACEBACK=1" in line


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("BadRead", ("--file", "dev.txt"), "read failed with KeyError: 'lines' (faults.py:"),
        (
            "BadText",
            ("the dog",),
            "read_text failed with ValueError: invalid literal for int() with base 10: 'the dog' (",
        ),
        ("BadHead", ("--file", "dev.txt"), "head gave 2, expected a TaskHeadConfig"),
        ("BadEncode", ("--file", "dev.txt"), "encode failed with AttributeError: 'tuple' object"),
        ("NoNotes", ("--file", "dev.txt"), "encode failed with AttributeError: type object 'Enco"),
        ("BadDecode", ("--file", "dev.txt"), "decode failed with IndexError: tuple index out of "),
        ("LateFault", ("--file", "dev.txt"), "decode failed with ZeroDivisionError: division by"),
        ("TooFew", ("--file", "dev.txt"), "decode gave 1 answer to 8 examples, expected one to e"),
    ],
)
def test_what_a_class_does_wrong_is_told_of_answers_too(
    name: str, asked: tuple[str, ...], told: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    learned(tmp_path / "run", f"faults:{name}")
    capsys.readouterr()
    assert bertsmith("predict", tmp_path / "run", "--task-class", f"faults:{name}", *asked) == 2
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert f"--task-class faults:{name}: its {told}" in line
    assert captured.out == ""


@pytest.mark.parametrize(
    ("name", "told"),
    [("BadOf", "mend what it was given, or the class ("), ("BadRead", "; mend the class (")],
)
def test_what_a_class_refuses_may_be_the_fault_of_a_file(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "run", f"faults:{name}")) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import json\n\nlines = json.loads('{')\n", "JSONDecodeError: Expecting property name "),
        ("names = [\n", "SyntaxError: '[' was never closed (broken.py, line 1)"),
        ("import nothing_such\n", "ModuleNotFoundError: No module named 'nothing_such' (broken.py"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told(
    code: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text(code)
    assert bertsmith(*begun(tmp_path / "run", "broken:Broken")) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--task-class broken:Broken: importing it failed with {told}" in line


def learned(run: Path, name: str) -> None:
    """A run that learned by the class that is right, and says that it was another."""
    assert bertsmith(*begun(run), "--epochs", "0.3") == 0
    path = run / "best" / "task.json"
    path.write_text(path.read_text().replace("emphasis:Emphasis", name))
