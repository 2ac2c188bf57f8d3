"""Whoever scores a model on what it has learned from is told so."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.commands import seen_examples
from bertsmith.commands.seen_examples import seen_note
from bertsmith.commands.task_files import Split
from bertsmith.recipes.finetuning import FinetuneRun
from bertsmith.runs.ancestry import examples_of
from bertsmith.runs.finetune_record import FinetuneRecord, write_finetune_record
from tests.commands.small_files import RUN
from tests.commands.small_task import bertsmith, write_model
from tests.commands.test_told_labels import table

TOLD = "note: the model has learned from"
SHORT = (*RUN, "--epochs", "0.2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file that one run divided and another one learned whole, and its Dev."""
    folder = tmp_path_factory.mktemp("seen")
    model = write_model(folder / "model")
    train, dev = table(folder / "a.csv", *"xy" * 20), table(folder / "b.csv", *"xy" * 3)
    divided = ("--dev-share", "0.3")
    assert (
        bertsmith(
            "finetune", model, "--texts", train, *divided, *SHORT, "--out", folder / "divided"
        )
        == 0
    )
    assert (
        bertsmith(
            "finetune", model, "--texts", train, "--dev", dev, *SHORT, "--out", folder / "whole"
        )
        == 0
    )
    return folder


@pytest.mark.parametrize(
    ("run", "options", "own"),
    [
        ("divided", ("a.csv",), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("divided", ("a.csv", "--split", "dev"), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("divided", ("b.csv", "--dev", "a.csv"), "--texts {}/a.csv --dev-share 0.3 --split dev"),
        ("whole", ("a.csv",), "--texts {}/b.csv"),
        ("whole", ("a.csv", "--split", "dev"), "--texts {}/b.csv"),
        ("divided", ("a.csv", "--split", "dev", "--dev-share", "0.3"), None),
        ("divided", ("a.csv", "--split", "train"), None),
        ("divided", ("b.csv",), None),
        ("whole", ("b.csv",), None),
        ("whole", ("a.csv", "--dev", "b.csv"), None),
    ],
)
def test_scores_on_what_was_learned_are_told_with_how_to_score_the_rest(
    folder: Path,
    run: str,
    options: tuple[str, ...],
    own: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    capsys.readouterr()
    assert bertsmith("evaluate", folder / run, "--texts", *options) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(TOLD)]
    expected = [] if own is None else [f"its own Dev is {own.format(folder.resolve())}"]
    assert [line.rpartition("; ")[2] for line in told] == expected


@pytest.mark.parametrize(
    ("learned", "source", "split", "own"),
    [
        ({"tagged": "/a"}, {"tagged": "/a"}, "dev", None),
        ({"tagged": "/a"}, {"tagged": "/a", "dev_share": 0.1, "split_seed": 0}, "dev", None),
        ({"tagged": "/a", "split_seed": 0}, {"tagged": "/a"}, "dev", None),
        ({"tagged": "/a"}, {"tagged": "/a", "split_seed": 1}, "dev", "--tagged /a --split dev"),
        ({"squad": "/a", "dev": "/b"}, {"squad": "/a"}, None, "--squad /b"),
        (
            {"task_class": "m:C", "examples": "/a", "dev": "/b"},
            {"task_class": "m:C", "examples": "/a"},
            None,
            "--task-class m:C --examples /b",
        ),
        ({"choices": "/a", "header": False}, {"choices": "/a"}, None,
         "--choices /a --no-header --split dev"),
        ({"glue": "/glue", "task": "RTE"}, {"glue": "/glue", "task": "RTE"}, None, None),
        ({}, {"texts": "/a"}, None, None),
    ],
)  # fmt: skip
def test_of_every_kind_of_file_its_own_dev_is_named(
    learned: dict[str, object],
    source: dict[str, object],
    split: Split | None,
    own: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seen_examples, "examples_of", lambda model: iter([learned]))
    note = seen_note(Path("run/best"), source, split)
    assert (None if note is None else note.rpartition("its own Dev is ")[2]) == own


def test_what_an_earlier_run_learned_from_is_told_too(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    begin = ("finetune", folder / "divided", "--texts", table(folder / "c.csv", *"xy" * 20))
    assert bertsmith(*begin, "--dev", "b.csv", *SHORT, "--out", "again") == 0
    for name, is_told in (("a.csv", True), ("c.csv", True), ("b.csv", False)):
        capsys.readouterr()
        assert bertsmith("evaluate", "again", "--texts", name) == 0
        told = [line for line in capsys.readouterr().out.splitlines() if line.startswith(TOLD)]
        expected = [f"{TOLD} {folder.resolve() / name}"] if is_told else []
        assert [line[: line.index(": scores")] for line in told] == expected


def test_a_record_of_another_version_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"kind": "fine-tuning"}')
    assert seen_note(tmp_path / "best", {"texts": "/a"}, None) is None


def test_directories_that_were_used_again_are_read_once_each(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        write_run(tmp_path / name, tmp_path / other / "best", f"/{name}.csv")
    learned = list(examples_of(tmp_path / "a" / "best"))
    assert learned == [{"texts": "/a.csv"}, {"texts": "/b.csv"}]


def test_an_earlier_run_that_may_not_be_read_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "a", tmp_path / "others" / "run" / "best", "/a.csv")
    is_file = Path.is_file

    def refused(path: Path) -> bool:
        if "others" in path.parts:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refused)
    assert seen_note(tmp_path / "a" / "best", {"texts": "/other.csv"}, None) is None
    note = seen_note(tmp_path / "a" / "best", {"texts": "/a.csv"}, None)
    assert note is not None


def write_run(directory: Path, model: Path, texts: str) -> None:
    """The record of a run that learned from a file."""
    record = FinetuneRecord(
        run=FinetuneRun(),
        num_steps=1,
        model=str(model),
        model_fingerprint="",
        examples_fingerprint="",
        task={},
        request={"examples": {"texts": texts}},
        command="",
        notes=(),
        versions={},
    )
    write_finetune_record(directory, record)
