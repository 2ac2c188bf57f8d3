"""What a machine has found of an experiment goes to another as rows, and is not made again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.commands.reproduction import carry_out as command
from bertsmith.commands.reproduction.making import Workshop, make
from bertsmith.files import lock
from bertsmith.recipes.experiments.experiment import Cell, Model, Perplexity, Pretrained, Score
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from tests.commands.small_reproduction import (
    experiment,
    reproduced,
    rows_of,
    small_scale,
    write_files,
    write_mnli,
)

SCALE = small_scale()
MNLI = SCALE.score(SCALE.bert(), "MNLI-m")
CELLS: tuple[Cell, ...] = (
    Perplexity(model=SCALE.bert()),
    MNLI,
    replace(MNLI, measured_on="MNLI-mm"),
    SCALE.features(SCALE.left_to_right(), "second-to-last"),
)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine on which all of it was made."""
    folder = write_files(tmp_path_factory.mktemp("first"))
    write_mnli(folder / "data" / "glue", "train", "dev_matched", "dev_mismatched")
    with pytest.MonkeyPatch.context() as patches:
        patches.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*CELLS))
        reproduced(folder, "table1")
    return folder


@pytest.fixture
def second(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another, with the same text and sets at another place, and the rows of the first."""
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*CELLS))
    for name in ("text", "data"):
        shutil.copytree(first / name, tmp_path / name)
    shutil.copy(first / "out" / "rows.jsonl", tmp_path / "rows.jsonl")
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Model | Score]:
    """What is made from now on."""
    found: list[Model | Score] = []

    def watched(what: Model | Score, workshop: Workshop) -> None:
        found.append(what)
        make(what, workshop)

    monkeypatch.setattr(command, "make", watched)
    return found


def keep(second: Path, *numbers: int) -> Path:
    """The rows of these numbers alone."""
    path = second / "rows.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in numbers), "utf-8")
    return path


def test_rows_alone_make_the_same_table_and_are_handed_on(
    first: Path, second: Path, made: list[Model | Score]
) -> None:
    printed = reproduced(second, "table1", rows=(second / "rows.jsonl",))
    assert "rows.jsonl: 3 cells that were found elsewhere are taken over" in printed
    assert "2 of 4 parts are there, 2 more are not needed any more" in printed
    assert made == []
    for ending in ("md", "csv"):
        found, expected = (
            (each / "out" / f"table1-tiny.{ending}").read_text("utf-8").replace(str(each), "")
            for each in (second, first)
        )
        assert found == expected
    found, expected = (
        sorted((each / "out" / "rows.jsonl").read_text("utf-8").splitlines())
        for each in (second, first)
    )
    assert found == expected
    # A second time the plan knows it, and nothing is taken over again.
    printed = reproduced(second, "table1", rows=(second / "rows.jsonl",))
    assert "all of it is there" in printed
    assert "rows.jsonl: 0 cells" in printed


def test_a_row_tells_its_machine_and_no_place_on_it(first: Path) -> None:
    text = (first / "out" / "rows.jsonl").read_text("utf-8")
    assert str(first) not in text
    rows = [json.loads(line) for line in text.splitlines()]
    assert [row["title"] for row in rows] == [
        "pre-training small",
        "table1: row 1, score",
        "table1: row 3, score",
    ]
    assert all(row["versions"]["torch"] for row in rows)


@pytest.mark.parametrize(
    ("kept", "models", "scores"),
    [
        # The perplexity is missing: its model is learned again, and nothing from it.
        ((1, 2), [SCALE.bert()], 0),
        # The states of a left-to-right model are read for the last cell alone.
        ((0, 1), [SCALE.left_to_right()], 1),
        ((0, 2), [SCALE.bert()], 1),
    ],
)
def test_what_no_row_has_is_made_with_what_it_begins_with(
    second: Path,
    made: list[Model | Score],
    kept: tuple[int, ...],
    models: list[Pretrained],
    scores: int,
) -> None:
    printed = reproduced(second, "table1", rows=(keep(second, *kept),))
    assert [each for each in made if not isinstance(each, Score)] == models
    assert sum(isinstance(each, Score) for each in made) == scores
    assert "rows.jsonl: 2 cells" in printed
    rows = rows_of(second, "table1")
    assert all(row["mean"] for row in rows.values())
    assert len((second / "out" / "rows.jsonl").read_text("utf-8").splitlines()) == 3


def test_more_seeds_than_a_row_has_are_run_all(
    second: Path, made: list[Model | Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduced(second, "table1", rows=(second / "rows.jsonl",))
    more = replace(MNLI, restarts=3)
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(more))
    reproduced(second, "table1", rows=(second / "rows.jsonl",))
    assert [type(each) for each in made] == [Pretrained, Score]
    assert rows_of(second, "table1")["row 0"]["runs"] == "3"
    # Its row is the new one; those of cells that nobody asked for stay.
    found = [json.loads(line) for line in (second / "out" / "rows.jsonl").open(encoding="utf-8")]
    assert len(found) == 3
    assert sorted(len(row["results"]["runs"]) for row in found if "results" in row) == [2, 3]


def test_rows_of_other_sets_are_not_taken(second: Path, made: list[Model | Score]) -> None:
    write_mnli(second / "data" / "glue", "dev_matched", "train", "dev_mismatched")
    printed = reproduced(second, "table1", rows=(second / "rows.jsonl",))
    assert "rows.jsonl: 2 cells" in printed
    assert [type(each) for each in made] == [Pretrained, Score]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no JSON", "rows.jsonl, line 2: no row of a finished cell"),
        ('{"title": "table1"}', "line 2: no row of a finished cell"),
        ("[1]", "line 2: no row of a finished cell"),
        ("KNOWN", "line 2: no row of a finished cell"),
    ],
)
def test_what_is_no_row_is_told_with_its_line(
    second: Path, made: list[Model | Score], line: str, told: str
) -> None:
    path = keep(second, 0, 1)
    before, known = path.read_text("utf-8").splitlines()
    bare = {name: json.loads(known)[name] for name in ("cell", "title")}
    path.write_text("\n".join([before, line.replace("KNOWN", json.dumps(bare))]), "utf-8")
    with pytest.raises(ValueError, match=told):
        reproduced(second, "table1", rows=(path,))
    with pytest.raises(FileNotFoundError, match=r"nowhere\.jsonl: no such file of rows"):
        reproduced(second, "table1", rows=(second / "nowhere.jsonl",))
    assert made == []


def test_rows_wait_for_another_process_that_writes_them(
    second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    held = lock(second / "out" / ".rows.jsonl.lock")
    held.__enter__()

    def slept(seconds: float) -> None:
        waits.append(seconds)
        held.__exit__(None, None, None)

    monkeypatch.setattr(command.time, "sleep", slept)
    reproduced(second, "table1", rows=(second / "rows.jsonl",))
    assert waits == [0.1]
    assert (second / "out" / "rows.jsonl").is_file()
