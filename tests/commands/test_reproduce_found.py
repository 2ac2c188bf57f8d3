"""What one machine has found of an experiment another does not make again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bertsmith.commands.reproduction import carry_out as command
from bertsmith.files import lock
from bertsmith.recipes.experiments.experiment import Cell, Model, Perplexity, Pretrained, Score
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.train.device import choose_precision
from tests.commands.small_reproduction import (
    experiment,
    made_by,
    reproduced,
    rows_of,
    small_scale,
    write_files,
    write_mnli,
)
from tests.pictures import leave_blank

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
        leave_blank(patches)
        patches.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*CELLS))
        reproduced(folder, "table1")
    return folder


@pytest.fixture
def second(first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Another, with the same text and sets at another place, and the lines of the first."""
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(*CELLS))
    for name in ("text", "data"):
        shutil.copytree(first / name, tmp_path / name)
    shutil.copy(first / "out" / "found.jsonl", tmp_path / "found.jsonl")
    return tmp_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Model | Score]:
    """What is made from now on."""
    return made_by(monkeypatch)


def keep(second: Path, *numbers: int) -> Path:
    """The lines of these numbers alone."""
    path = second / "found.jsonl"
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[number] for number in numbers), "utf-8")
    return path


def test_lines_alone_make_the_same_table_and_are_handed_on(
    first: Path, second: Path, made: list[Model | Score]
) -> None:
    printed = reproduced(second, "table1", found=(second / "found.jsonl",))
    assert "what other machines have found is told once the corpus is there" in printed
    assert "2 of 4 parts are there; not needed any more: 2" in printed
    assert made == []
    report = (second / "out" / "table1-tiny.md").read_text("utf-8")
    note = "4 cells told by found.jsonl, where runs on other machines are."
    assert note in report
    for ending in ("md", "csv"):
        found, expected = (
            (each / "out" / f"table1-tiny.{ending}").read_text("utf-8").replace(str(each), "")
            for each in (second, first)
        )
        assert found.replace(f"- {note}\n", "") == expected
    found, expected = (
        [json.loads(line) for line in (each / "out" / "found.jsonl").open(encoding="utf-8")]
        for each in (second, first)
    )
    assert found == [{**line, "is_elsewhere": True} for line in expected]
    # From then on they are known without being named, and the plan tells it.
    printed = reproduced(second, "table1")
    assert "all of it is there" in printed
    assert made == []


def test_a_line_tells_its_machine_and_no_place_on_it(first: Path) -> None:
    text = (first / "out" / "found.jsonl").read_text("utf-8")
    assert str(first) not in text
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["title"] for line in lines] == [
        "pre-training small",
        "table1: row 1, score",
        "table1: row 3, score",
    ]
    auto = choose_precision("auto", torch.device("cpu"))
    # The small scale says with what it pre-trains; fine-tuning takes the machine's best.
    assert [line["precision"] for line in lines] == ["fp32", auto, auto]
    for line in lines[1:]:
        assert line["set"]["num_learned"] == line["set"]["num_train"] > 0
        assert "are official" in line["set"]["not_official"][0]
    other = "MNLI-mm: measured on 80 examples of Dev, and 9,832 are official"
    assert [other in line["set"]["not_official"] for line in lines[1:]] == [True, False]
    report = (first / "out" / "table1-tiny.md").read_text("utf-8")
    for name, official in (("MNLI-m", "9,815"), ("MNLI-mm", "9,832")):
        (note,) = [each for each in report.splitlines() if f" {name} is not the off" in each]
        assert f"measured on 80 examples of Dev, and {official} are official" in note
    for line in lines:
        assert line["versions"]["torch"]
        assert line["seconds"] > 0


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
def test_what_no_line_has_is_made_with_what_it_begins_with(
    first: Path,
    second: Path,
    made: list[Model | Score],
    kept: tuple[int, ...],
    models: list[Pretrained],
    scores: int,
) -> None:
    path = keep(second, *kept)
    text = path.read_text("utf-8")
    told = rows_of(first, "table1")["row 0"]["mean"]
    path.write_text(text.replace('"perplexity": ', '"perplexity": 1'), "utf-8")
    reproduced(second, "table1", found=(path,))
    assert [each for each in made if not isinstance(each, Score)] == models
    assert sum(isinstance(each, Score) for each in made) == scores
    rows = rows_of(second, "table1")
    assert all(row["mean"] for row in rows.values())
    # What was made here counts before what another machine tells.
    is_here = SCALE.bert() in models
    assert (rows["row 0"]["mean"] == told) == is_here
    lines = [json.loads(line) for line in (second / "out" / "found.jsonl").open(encoding="utf-8")]
    assert len(lines) == 3
    [perplexity] = [line["perplexity"] for line in lines if "perplexity" in line]
    assert float(rows["row 0"]["mean"]) == pytest.approx(perplexity, rel=1e-3)


def test_what_somebody_deleted_is_made_again(
    second: Path, made: list[Model | Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(MNLI))
    reproduced(second, "table1")
    shutil.rmtree(second / "out" / "fine-tuned")
    reproduced(second, "table1")
    assert [type(each) for each in made] == [Pretrained, Score, Score]


def test_more_seeds_than_a_line_has_are_run_all(
    second: Path, made: list[Model | Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    reproduced(second, "table1", found=(second / "found.jsonl",))
    more = replace(MNLI, restarts=3)
    monkeypatch.setitem(EXPERIMENTS, "table1", lambda scale: experiment(more))
    reproduced(second, "table1", found=(second / "found.jsonl",))
    assert [type(each) for each in made] == [Pretrained, Score]
    assert rows_of(second, "table1")["row 0"]["runs"] == "3"
    # Its line is the new one; those of cells that nobody asked for stay.
    lines = [json.loads(line) for line in (second / "out" / "found.jsonl").open(encoding="utf-8")]
    assert len(lines) == 3
    assert sorted(len(line["results"]["runs"]) for line in lines if "results" in line) == [2, 3]


def test_lines_of_other_sets_are_not_taken(second: Path, made: list[Model | Score]) -> None:
    write_mnli(second / "data" / "glue", "dev_matched", "train", "dev_mismatched")
    reproduced(second, "table1", found=(second / "found.jsonl",))
    assert [type(each) for each in made] == [Pretrained, Score]


@pytest.mark.parametrize("place", ["found.jsonl", "out/found.jsonl"])
def test_a_damaged_file_is_told_before_any_work(
    second: Path, made: list[Model | Score], place: str
) -> None:
    (second / "out").mkdir()
    (second / place).write_text("no line of ours\n", "utf-8")
    with pytest.raises(ValueError, match=r"found\.jsonl, line 1: not what a finished cell has"):
        reproduced(second, "table1", found=(second / "found.jsonl",))
    assert made == []
    assert not (second / "out" / "text").exists()


def test_plan_only_writes_nothing(second: Path) -> None:
    reproduced(second, "table1", found=(second / "found.jsonl",), plan_only=True)
    assert not (second / "out").exists()


def test_writing_waits_for_another_process(second: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    held = lock(second / "out" / ".found.jsonl.lock")
    held.__enter__()

    def slept(seconds: float) -> None:
        waits.append(seconds)
        held.__exit__(None, None, None)

    monkeypatch.setattr(command.time, "sleep", slept)
    reproduced(second, "table1", found=(second / "found.jsonl",))
    assert waits == [0.1]
    assert (second / "out" / "found.jsonl").is_file()
