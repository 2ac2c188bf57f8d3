"""A task class of a person's own is learned, resumed and scored, and imported only when named."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from bertsmith.inference import Predictor
from bertsmith.tasks.imported import imported_class, read_own_task
from bertsmith.tasks.stored import read_task
from tests.commands.small_files import RUN
from tests.commands.small_run import killed_at
from tests.commands.small_task import bertsmith, write_model

CODE = '''
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bertsmith.data.items import one_text
from bertsmith.data.labelled import LabelledItems
from bertsmith.model.task import TaskHeadConfig
from bertsmith.tasks.task import EncodedTexts

Path(__file__).with_name("imported").touch()


@dataclass(frozen=True)
class Emphasis:
    """Whether a line ends in an exclamation mark, which is not shown."""

    names: tuple[str, ...]
    max_tokens: int = 16

    @classmethod
    def read(cls, path):
        return path.read_text().splitlines()

    @classmethod
    def of(cls, examples, max_tokens):
        return cls(names=("calm", "loud"), max_tokens=max_tokens)

    @property
    def head(self):
        return TaskHeadConfig(kind="sequence_classification", labels=self.names)

    def encode(self, examples, tokenizer):
        texts = [line.rstrip("!") for line in examples]
        ids = [each.ids for each in tokenizer.encode_batch(texts, add_special_tokens=False)]
        special = {"cls_id": tokenizer.cls_id, "sep_id": tokenizer.sep_id}
        return EncodedTexts(labelled=LabelledItems(
            items=[one_text(each, limit=self.max_tokens, keep=(0, 0), **special) for each in ids],
            groups=np.arange(len(ids)), rows=None,
            targets=[np.array([int(line.endswith("!"))]) for line in examples],
        ))

    def decode(self, examples, encoded, scores):
        return [self.names[int(each.argmax())] for each in scores]

    def score(self, examples, answers):
        right = [self.names[line.endswith("!")] == each for line, each in zip(examples, answers)]
        return {"accuracy": sum(right) / len(right)}


class Plain:
    pass


@dataclass(frozen=True)
class Typed(Emphasis):
    @classmethod
    def read_text(cls, text):
        return text

    def decode(self, examples, encoded, scores):
        return [{"text": line, "kind": {1}} if "cat" in line else (line, 1) for line in examples]


@dataclass(frozen=True)
class Short(Typed):
    def decode(self, examples, encoded, scores):
        return ["calm"]


@dataclass(frozen=True)
class Half:
    names: tuple[str, ...]


@dataclass(frozen=True)
class Deep(Emphasis):
    inner: frozenset = frozenset({1})
'''


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a directory with the class's file and two files of lines, as if nothing were imported."""
    (tmp_path / "emphasis.py").write_text(CODE)
    for name, count in (("train.txt", 32), ("dev.txt", 8)):
        lines = [
            "my dog likes paris!" if number % 2 else "the cat was hairy" for number in range(count)
        ]
        (tmp_path / name).write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    threads = torch.get_num_threads()
    sys.modules.pop("emphasis", None)
    yield
    sys.modules.pop("emphasis", None)
    torch.set_num_threads(threads)


def begun(out: Path) -> tuple[object, ...]:
    files = ("--task-class", "emphasis:Emphasis", "--examples", "train.txt", "--dev", "dev.txt")
    return ("finetune", write_model(Path("model").resolve()), *files, *RUN, "--out", out)


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
    score = next(line for line in told if "(95%" in line)
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
    assert (status, "Short.decode gave 1 answers to 2 examples" in told) == (2, True)


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
    begin = [each if each != "emphasis:Emphasis" else name for each in begun(tmp_path / "run")]
    assert bertsmith(*begin) == 2
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
