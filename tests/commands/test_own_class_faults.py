"""What a task class of a person's own does wrong is told in a line before it is learned."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands.small_task import bertsmith
from tests.commands.test_own_class import _here, begun  # noqa: F401  # a fixture for all tests

CODE = """
from dataclasses import dataclass

import numpy as np

from emphasis import Emphasis


@dataclass(frozen=True)
class BadDecode(Emphasis):
    def decode(self, examples, encoded, scores):
        return [self.names[7] for each in scores]


@dataclass(frozen=True)
class BadScore(Emphasis):
    def score(self, examples, answers):
        return {"f1": 1 / sum(each == "none" for each in answers)}


@dataclass(frozen=True)
class BadEncode(Emphasis):
    def encode(self, examples, tokenizer):
        return examples.texts


@dataclass(frozen=True)
class NotEncoded(Emphasis):
    def encode(self, examples, tokenizer):
        return super().encode(examples, tokenizer).labelled


@dataclass(frozen=True)
class BadRead(Emphasis):
    @classmethod
    def read(cls, path):
        return {}["lines"]


@dataclass(frozen=True)
class BadOf(Emphasis):
    @classmethod
    def of(cls, examples, max_tokens):
        raise ValueError("train.txt:3: no emphasis")


@dataclass(frozen=True)
class BadHead(Emphasis):
    @property
    def head(self):
        return len(self.names)


@dataclass(frozen=True)
class NoList(Emphasis):
    def decode(self, examples, encoded, scores):
        return (each for each in examples)


@dataclass(frozen=True)
class NoScores(Emphasis):
    def score(self, examples, answers):
        return {}


@dataclass(frozen=True)
class NoNumber(Emphasis):
    def score(self, examples, answers):
        return {"accuracy": np.float32(0.5)}


@dataclass(frozen=True)
class TooFew(Emphasis):
    def decode(self, examples, encoded, scores):
        return ["calm"]
"""


@pytest.fixture(autouse=True)
def _faults(_here: None, tmp_path: Path) -> Iterator[None]:  # noqa: F811
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
        (
            "BadEncode",
            "encode failed with AttributeError: 'tuple' object has no attribute 'texts' (f",
        ),
        (
            "NotEncoded",
            "encode failed with AttributeError: 'LabelledItems' object has no attribute 'labelled'",
        ),
        ("BadDecode", "decode failed with IndexError: tuple index out of range (faults.py:"),
        ("TooFew", "decode gave 1 answer to the 8 Dev examples, expected one to each"),
        ("NoList", "decode gave generator, expected a list with an answer to each of the 8 Dev"),
        ("BadScore", "score failed with ZeroDivisionError: division by zero (faults.py:"),
        ("NoScores", "score gave {}, expected a number by name"),
        ("NoNumber", "score gave np.float32(0.5) for 'accuracy', expected a float"),
    ],
)
def test_what_a_class_does_wrong_is_told_before_training(
    name: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = [
        each if each != "emphasis:Emphasis" else f"faults:{name}"
        for each in begun(tmp_path / "run")
    ]
    assert bertsmith(*begin) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"--task-class faults:{name}: its {told}" in line
    assert not (tmp_path / "run" / "run.json").exists()


def test_what_a_class_does_wrong_is_told_in_evaluation_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith(*begun(tmp_path / "run"), "--epochs", "0.3") == 0
    capsys.readouterr()
    path = tmp_path / "run" / "best" / "task.json"
    path.write_text(path.read_text().replace("emphasis:Emphasis", "faults:BadScore"))
    named = ("--task-class", "faults:BadScore", "--examples", "dev.txt")
    assert bertsmith("evaluate", tmp_path / "run", *named) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--task-class faults:BadScore: its score failed with ZeroDivisionError" in line
    assert "BERTSMITH_TRACEBACK=1" in line
