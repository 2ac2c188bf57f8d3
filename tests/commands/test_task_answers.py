"""A record for every row, with what is kept of it beside the answer."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from bertsmith import cli
from tests.tasks.answering import TASKS, write_answering

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
