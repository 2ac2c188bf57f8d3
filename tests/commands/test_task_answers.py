"""A record for every row, with what is kept of it beside the answer."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bertsmith import cli
from bertsmith.commands.task_answers import names_kept
from bertsmith.model.task import TaskKind
from tests.tasks.answering import PASSAGE, TASKS, write_answering

QUIET = ("--device", "cpu", "--precision", "fp32")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that classifies texts."""
    folder = tmp_path_factory.mktemp("models") / "texts"
    write_answering(folder, TASKS["sequence_classification"])
    return folder


def predicted(model: Path, *more: object) -> None:
    arguments = ("predict", model, *more, *QUIET)
    assert cli.main([str(argument) for argument in arguments]) == 0


def records(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def objects(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_broken_rows_stand_among_the_answers_with_what_is_kept(
    classifier: Path, tmp_path: Path
) -> None:
    rows, table, lines = (tmp_path / name for name in ("rows.csv", "out.csv", "out.jsonl"))
    rows.write_text("id,text\n1,the dog\n2\n3,\n4,a cat\n", "utf-8")
    keeping = ("--file", rows, "--keep", "id", "--skip-malformed")
    predicted(classifier, *keeping, "--out", table)
    predicted(classifier, *keeping, "--out", lines)
    assert [record["id"] for record in records(table)] == ["1", "", "3", "4"]
    assert [bool(record["fault"]) for record in records(table)] == [False, True, True, False]
    assert [found.get("id") for found in objects(lines)] == ["1", None, "3", "4"]


def test_a_kept_column_never_gives_way_to_an_answers_own(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, table, lines = (tmp_path / name for name in ("rows.csv", "out.csv", "out.jsonl"))
    rows.write_text("text,label,fault,id\nthe dog,gold,none,1\n", "utf-8")
    keep = ("--keep", "label", "fault", "id")
    predicted(classifier, "--file", rows, *keep, "--out", table)
    assert "the file's own column 'label' is written as 'kept.label'" in capsys.readouterr().err
    predicted(classifier, "--file", rows, *keep, "--out", lines)
    (record,), (found,) = records(table), objects(lines)
    header = table.read_text("utf-8").splitlines()[0].split(",")
    assert header[:3] == ["kept.label", "kept.fault", "id"]
    assert len(header) == len(set(header))
    assert record["label"] == found["label"] != "gold"
    for each in (record, found):
        assert (each["kept.label"], each["kept.fault"], each["id"]) == ("gold", "none", "1")


@pytest.mark.parametrize("kind", list(TASKS))
def test_every_field_of_an_answer_is_known_as_its_own(kind: TaskKind, tmp_path: Path) -> None:
    write_answering(tmp_path / "model", TASKS[kind])
    texts = {"question_answering": ("is he ?", PASSAGE), "multiple_choice": ("he", "a dog", "is")}
    out = tmp_path / "out.jsonl"
    predicted(tmp_path / "model", *texts.get(kind, ("the dog",)), "--out", out)
    (found,) = objects(out)
    names = names_kept(TASKS[kind], tuple(found), 1)
    assert all(called == f"kept.{name}" for name, called in names.items())


def test_two_kept_columns_of_one_name_are_refused() -> None:
    task = TASKS["sequence_classification"]
    with pytest.raises(ValueError, match=r"--keep label is written as kept\.label"):
        names_kept(task, ("label", "kept.label"), 1)
