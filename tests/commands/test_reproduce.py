"""A table of the paper from text and labelled sets, in seconds: all of it small, none a stub."""

from __future__ import annotations

import csv
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from bertsmith.commands.reproduction import carry_out as command
from bertsmith.commands.reproduction.making import Workshop, make
from bertsmith.files import claimed, read_json
from bertsmith.recipes.experiments.experiment import Model, Score
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.runs.experiments import verdicts
from bertsmith.runs.experiments.found import Finding
from bertsmith.runs.experiments.places import Site
from tests.commands.small_reproduction import reproduced, small_scale, write_files, write_mnli
from tests.commands.small_task import bertsmith
from tests.pictures import leave_blank


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_files(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder where table 5 was made, and what that printed."""
    folder = write_files(tmp_path_factory.mktemp("finished"))
    with pytest.MonkeyPatch.context() as patches:
        leave_blank(patches)
        return folder, reproduced(folder, "table5")


@pytest.mark.drawn
def test_a_table_is_made_told_and_found_again(finished: tuple[Path, str]) -> None:
    folder, printed = finished
    report = (folder / "out" / "table5-tiny.md").read_text("utf-8")
    assert "| paper: No NSP | 83.9 | 84.9 | 86.5 | 92.6 | 87.9 |" in report
    assert "MNLI has no train.tsv" in report.replace(str(folder / "data" / "glue") + "/", "")
    assert "not the official set here: 40 training examples" in report
    rows = list(csv.DictReader((folder / "out" / "table5-tiny.csv").read_text().splitlines()))
    ours = [row for row in rows if row["column"] == "SST-2"]
    assert [row["row"] for row in ours] == ["BASE", "No NSP", "LTR & No NSP", "+ BiLSTM"]
    assert all(row["runs"] == "2" and row["mean"] for row in ours)
    assert "Left to right is worse on all tasks" in printed
    # A note says how many of the pairs were random; where there is a verdict on them, it does too.
    share = re.search(r"B was random in (\d+)% of the sequences of at most 32 tokens\.", report)
    assert share is not None
    assert 50 < int(share[1]) <= 100
    assert report.count(share[0]) == 1
    (claim,) = [line for line in report.splitlines() if line.startswith("- Without NSP")]
    assert claim.endswith("suffer: **not measured**.")

    before = {path: path.stat().st_mtime_ns for path in (folder / "out").rglob("metrics.jsonl")}
    assert len(before) == 3 + 4 * 2  # models, and two seeds of four rows
    (folder / "out" / "table5-tiny.png").unlink()
    again = reproduced(folder, "table5")
    assert (folder / "out" / "table5-tiny.png").stat().st_size > 1_000
    assert "7 of 7 parts are there" in again
    assert "all of it is there" in again
    assert before == {path: path.stat().st_mtime_ns for path in before}


def test_the_verdict_on_next_sentences_says_how_many_pairs_are_random(
    finished: tuple[Path, str],
) -> None:
    folder, _ = finished
    (corpus,) = (folder / "out" / "text").glob("*/corpus")
    workshop = cast(Workshop, SimpleNamespace(corpora={False: corpus}))
    scale = small_scale()
    found = command._with_random_pairs(EXPERIMENTS["table5"](scale), workshop, scale)
    (claim,) = [each for each in found.claims if each.remark]
    assert claim.sentence == "Without NSP QNLI, MNLI and SQuAD suffer"
    assert claim.remark in (folder / "out" / "table5-tiny.md").read_text("utf-8")
    report = {place: Finding(values=(0.5, 0.6, 0.7)) for pair in claim.pairs for place in pair}
    assert verdicts.sentence(found, claim, report).endswith(claim.remark)
    other = EXPERIMENTS["table8"](scale)
    assert command._with_random_pairs(other, workshop, scale) == other


def test_tables_share_their_models_and_scores_alone_are_kept(
    finished: tuple[Path, str], tmp_path: Path
) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "copied")
    printed = reproduced(folder, "table1")
    # Of table 1 the small model is there, and its cell of SST-2; the large one and its cell not.
    assert "2 of 4 parts are there" in printed
    tuned = folder / "out" / "fine-tuned"
    assert list(tuned.rglob("scores.json"))
    assert not list(tuned.rglob("model.safetensors"))


def test_weights_are_kept_where_it_is_asked(folder: Path) -> None:
    reproduced(folder, "table4", keep_models=True)
    assert list((folder / "out" / "fine-tuned").rglob("model.safetensors"))


def test_what_was_stopped_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def stopped(what: Model | Score, workshop: Workshop) -> None:
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(what)
        make(what, workshop)

    monkeypatch.setattr(command, "make", stopped)
    with pytest.raises(KeyboardInterrupt):
        reproduced(folder, "table4")
    assert "not run yet" in (folder / "out" / "table4-tiny.md").read_text("utf-8")
    monkeypatch.setattr(command, "make", make)
    printed = reproduced(folder, "table4")
    assert "1 of 4 parts are there" in printed
    assert " in all for what is not there yet" in printed


def test_a_failure_is_raised_after_the_tables_are_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failed(*_: object) -> None:
        raise OSError("no space left")

    def untold(*_: object) -> None:
        raise ValueError("no picture")

    monkeypatch.setattr(command, "make", failed)
    with pytest.raises(OSError, match="no space left"):
        reproduced(folder, "table4")
    assert "not run yet" in (folder / "out" / "table4-tiny.md").read_text("utf-8")
    monkeypatch.setattr(command, "_tell", untold)
    with pytest.raises(OSError, match="no space left") as stop:
        reproduced(folder, "table4")
    assert stop.value.__notes__ == ["table4 could not be told: no picture"]


def test_what_another_process_holds_is_left_to_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    monkeypatch.setattr(command, "SECONDS_BETWEEN_LOOKS", 0.01)

    def watched(what: Model | Score, workshop: Workshop) -> None:
        order.append(workshop.site.of(what).name)
        make(what, workshop)

    held: list[object] = []
    claim = Site.place_of_claim

    def place(site: Site, part: Path) -> Path:
        # The second part is another's while nothing but the first is made.
        path = claim(site, part)
        if len(order) == 1 and not held:
            other = claimed(path)
            other.__enter__()
            held.append(other)
        elif len(order) == 2 and held and held[-1] is not None:
            held[-1].__exit__(None, None, None)  # type: ignore[attr-defined]
            held.append(None)
        return path

    monkeypatch.setattr(command, "make", watched)
    monkeypatch.setattr(Site, "place_of_claim", place)
    reproduced(folder, "table4")
    assert [name.split("-")[0] for name in order] == ["small", "small", "SWAG", "SWAG"]


def test_a_figure_without_its_set_is_a_named_gap_and_makes_nothing(folder: Path) -> None:
    printed = reproduced(folder, "figure5")
    assert "nothing can be measured" in printed
    assert not list((folder / "out").glob("*/*"))
    report = (folder / "out" / "figure5-tiny.md").read_text("utf-8")
    assert "MNLI-m: " in report
    assert "MNLI has no train.tsv" in report
    assert "**not measured**" in report
    assert "not decidable" not in report
    assert not (folder / "out" / "figure5-tiny.png").exists()


def test_named_entities_from_frozen_states_and_from_joined_models(folder: Path) -> None:
    printed = reproduced(folder, "contemporaries")
    rows = (folder / "out" / "contemporaries-tiny.csv").read_text().splitlines()
    features = {row["row"]: row for row in csv.DictReader(rows) if row["column"] == "NER features"}
    assert len(features) == 4
    assert all(row["runs"] == "2" for row in features.values())
    assert len(list((folder / "out" / "joined").iterdir())) == 2
    assert "SST-2" in printed
    assert not list((folder / "out").rglob("features"))


def test_the_plan_makes_nothing(folder: Path) -> None:
    printed = reproduced(folder, "table5", plan_only=True)
    assert "3 runs of 0.0 M tokens" in printed
    assert re.search(r"at least \d+\.\d GiB of memory, for the 4 sequences of 32 tokens", printed)
    assert re.search(r"about \d+\.\d [KM]B of disk, beside the corpus", printed)
    assert "left out" in printed
    assert not (folder / "out").exists()


def test_steps_are_cut_into_micro_batches_and_their_runs_are_found_again_without(
    folder: Path,
) -> None:
    reproduced(folder, "table4", accumulation=3)
    for kind, expected in (("pretrained/*", 3), ("fine-tuned/SWAG-*/*", 3)):
        records = [read_json(path) for path in (folder / "out").glob(f"{kind}/run.json")]
        assert records
        assert {record["run"]["accumulation"] for record in records} == {expected}
    assert "4 of 4 parts are there" in reproduced(folder, "table4")
    with pytest.raises(ValueError, match=r"a step of 4 sequences cannot be cut into 5 micro-b"):
        reproduced(folder, "table4", accumulation=5)


def test_what_is_missing_is_told_before_any_work(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ("--text", folder / "text", "--data", folder / "none")
    assert bertsmith("reproduce", "table5", *named) == 2
    assert "no such folder of labelled sets" in capsys.readouterr().err
    assert bertsmith("reproduce", "table5", "--data", folder / "data") == 2
    assert "--text" in capsys.readouterr().err
    text = ("--text", folder / "nowhere", "--data", folder / "data")
    assert bertsmith("reproduce", "table5", *text, "--out", folder / "out") == 2
    assert not (folder / "out").exists()
    error = capsys.readouterr()
    assert "nowhere: no such file or folder" in error.err
    assert "expected" not in error.out
    assert bertsmith("reproduce", "table5", *text, "--accumulation", "0") == 2
    assert "accumulation must be at least 1, found 0" in capsys.readouterr().err
    assert bertsmith("reproduce") == 2
    assert "--list" in capsys.readouterr().err


def test_the_list_says_what_each_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert bertsmith("reproduce", "--list", "--scale", "tiny") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in ("table1", "table8", "figure5", "contemporaries"))
    assert "glue/MNLI" in printed
    assert "missing" not in printed
    assert "4,000 uncased word pieces" in printed
    assert bertsmith("reproduce", "--list", "--scale", "paper") == 0
    assert "30,522 uncased word pieces and 28,996 cased" in capsys.readouterr().out


def test_of_what_is_named_the_list_says_what_it_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert bertsmith("reproduce", "table7", "--list", "--scale", "paper") == 0
    printed = capsys.readouterr().out
    assert "table7 " in printed
    assert "table8" not in printed
    assert "glue/MNLI" not in printed
    assert "time, memory, scores: planned 4,080 days on two cores" in printed
    assert "planned 11 GiB with `--accumulation 32`" in printed


def test_both_of_mnlis_sets_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mnli(folder / "data" / "glue", "train", "dev_matched", "dev_mismatched")
    assert bertsmith("reproduce", "--list", "--data", folder / "data") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("MNLI-m")]
    assert len(lines) == 2
    assert all("80 training examples are there, and 392,702 are" in line for line in lines)
    assert "measured on 80 examples of Dev, and 9,815 are official" in lines[0]
    assert "measured on 80 examples of Dev, and 9,832 are official" in lines[1]


def test_the_list_tells_a_set_that_cannot_be_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "data" / "glue" / "SST-2" / "train.tsv"
    path.write_text("no such header\n", "utf-8")
    assert bertsmith("reproduce", "--list", "--data", folder / "data") == 0
    assert "glue/SST-2: there, and cannot be read: " in capsys.readouterr().out


def test_the_list_says_which_sets_are_there(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bertsmith("reproduce", "--list", "--data", folder / "data") == 0
    lines = capsys.readouterr().out.splitlines()
    told = {name: line for line in lines for name in ("SST-2", "TriviaQA") if line.startswith(name)}
    assert told["SST-2"].startswith(
        "SST-2          glue/SST-2: there, not the official set: 40 training examples are there, "
        "and 67,349 are official"
    )
    at = next(number for number, line in enumerate(lines) if line.startswith("table5"))
    assert "8,000 uncased word pieces" in lines[at + 1]
    assert lines[at + 3].strip() == (
        "missing here: MNLI-m, QNLI, MRPC, SQuAD 1.1; their cells are left out"
    )
    assert any("--plan-only" in line for line in lines)
    assert bertsmith("reproduce", "--list", "--data", folder / "nowhere") == 2
    assert "nowhere: no such folder of labelled sets" in capsys.readouterr().err
    assert f": missing, there is no {folder / 'data' / 'triviaqa'}" in told["TriviaQA"]


def test_a_broken_set_is_told_before_any_work(folder: Path) -> None:
    path = folder / "data" / "glue" / "SST-2" / "train.tsv"
    path.write_text(path.read_text("utf-8") + "the dog\tperhaps\n", "utf-8")
    with pytest.raises(ValueError, match="perhaps"):
        reproduced(folder, "table5")
    assert not (folder / "out").exists()
