"""`evaluate --predictions` prints the official evaluator's figures, to the digit."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from bertsmith import cli

GOLD = {
    "version": "v2.0",
    "data": [{"paragraphs": [{"context": "x", "qas": [
        {"id": "a", "answers": [{"text": "not in the passage", "answer_start": 0}]},
        {"id": "b", "answers": [], "is_impossible": True},
    ]}]}],
}  # fmt: skip


def score(*arguments: object) -> int:
    return cli.main(["evaluate", *map(str, arguments)])


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "questions"),
    [
        ("bert-ensemble-v1.1.json", "dev-v1.1.json.gz"),
        ("logreg-v1.1.json", "dev-v1.1.json.gz"),
        ("bert-single-v2.0.json", "dev-v2.0.json.gz"),
    ],
)
def test_golden_predictions_score_as_the_official_evaluator_says(
    name: str, questions: str, capsys: pytest.CaptureFixture[str]
) -> None:
    squad = Path(os.environ["BERTSMITH_DATA"]) / "squad"
    predictions = squad / "predictions" / f"{name}.gz"
    assert score("--predictions", predictions, "--squad", squad / questions) == 0
    found = json.loads(capsys.readouterr().out)
    golden = json.loads((squad / "predictions/golden_scores.json").read_text("utf-8"))[name]
    if "1.1" in name:
        del golden["total"]
    assert found == golden
    assert list(found) == list(golden)


def test_null_odds_give_the_best_threshold_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(GOLD), encoding="utf-8")
    with gzip.open(tmp_path / "predictions.json.gz", "wt", encoding="utf-8") as file:
        json.dump({"a": "not in the passage", "b": "x", "c": "y"}, file)
    (tmp_path / "null_odds.json").write_text(json.dumps({"a": -1.5, "b": 2.0}), encoding="utf-8")
    options = ["--predictions", tmp_path / "predictions.json.gz", "--squad", tmp_path / "dev.json"]
    assert score(*options, "--null-odds", tmp_path / "null_odds.json") == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert (found["exact"], found["best_f1"], found["best_f1_thresh"]) == (50.0, 100.0, -1.5)
    assert captured.err == (
        f"note: 1 are of no question of {tmp_path / 'dev.json'}, and not scored\n"
        f"note: scored as SQuAD 2.0, where no answer may be one\n"
    )
    assert score(*options, "--squad-version", "1.1") == 0
    assert list(json.loads(capsys.readouterr().out)) == ["exact_match", "f1"]


@pytest.mark.parametrize(
    ("version", "options", "told", "f1"),
    [
        ("KorQuAD_v1.0_dev", (), "scored as KorQuAD, whose F1 counts characters", 80.0),
        ("KorQuAD_v1.0_dev", ("--squad-version", "1.1"), "scored as SQuAD 1.1", 0.0),
        ("1.1", (), "scored as SQuAD 1.1", 0.0),
    ],
)
def test_whose_rules_are_taken_is_told(
    version: str, options: tuple[str, ...], told: str, f1: float,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    question = {"id": "a", "answers": [{"text": "한강", "answer_start": 0}]}
    content = {
        "version": version,
        "data": [{"paragraphs": [{"context": "한강", "qas": [question]}]}],
    }
    (tmp_path / "dev.json").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "p.json").write_text(json.dumps({"a": "한강은"}), encoding="utf-8")
    files = ("--predictions", tmp_path / "p.json", "--squad", tmp_path / "dev.json")
    assert score(*files, *options) == 0
    captured = capsys.readouterr()
    assert captured.err == f"note: {told}\n"
    assert json.loads(captured.out)["f1"] == pytest.approx(f1)


def test_questions_in_rows_are_scored_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "id,question,context,answer\na,Who?,Ann sings.,Ann\nb,When?,Ann sings.,{}\n"
    (tmp_path / "p.json").write_text(json.dumps({"a": "Ann", "b": "Ann"}), encoding="utf-8")
    for answer, name in (("sings", "exact_match"), ("", "exact")):
        (tmp_path / "g.csv").write_text(rows.format(answer), encoding="utf-8")
        assert score("--predictions", "p.json", "--squad", "g.csv") == 0
        assert json.loads(capsys.readouterr().out)[name] == 50.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--predictions p.json", "--predictions needs --squad"),
        ("run --predictions p.json --squad g.json", "are scored without a model: leave run out"),
        ("--predictions none.json --squad g.json", "none.json: no such file"),
        ("--predictions p.json --squad p.json", "p.json: not SQuAD's JSON"),
        ("--predictions g.json --squad g.json", "expected an answer (text) for each"),
        ("--predictions other.json --squad g.json",
         "2 of 2 questions of g.json have no prediction in other.json, which holds only other ids, "
         "'z' first"),
        ("--predictions empty.json --squad g.json",
         "2 of 2 questions of g.json have no prediction in empty.json, which holds none at all"),
        ("--predictions p.json --squad g.json --out o", "--out is for what a model answers"),
        ("--predictions p.json --squad g.json --report o", "--report is for what a model answers"),
        ("--predictions p.json --squad g.json --null-odds p.json", "expected a number for each"),
        ("--predictions p.json --squad g.json --null-odds odds.json --squad-version 1.1",
         "--null-odds says when no answer is given"),
        ("--null-odds odds.json run", "go with --predictions"),
        ("", "name a model to score"),
    ],
)  # fmt: skip
def test_what_cannot_be_scored_is_one_line(
    arguments: str, message: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name, content in (
        ("g", GOLD), ("p", {"a": "x"}), ("other", {"z": ""}), ("empty", {}), ("odds", {"a": 1}),
    ):  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    assert score(*arguments.split()) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_the_folder_that_predict_wrote_is_taken_for_its_predictions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(GOLD), encoding="utf-8")
    folder = tmp_path / "answers"
    folder.mkdir()
    assert score("--predictions", folder, "--squad", tmp_path / "dev.json") == 2
    assert "answers/predictions.json: no such file" in capsys.readouterr().err
    (folder / "predictions.json").write_text(json.dumps({"a": "x"}), encoding="utf-8")
    assert score("--predictions", folder, "--squad", tmp_path / "dev.json") == 0
    assert json.loads(capsys.readouterr().out)["exact"] == 0.0


def test_predictions_one_a_line_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dev.json").write_text(json.dumps(GOLD), encoding="utf-8")
    lines = tmp_path / "answers.jsonl"
    lines.write_text('{"id": "a"}\n{"id": "b"}\n', encoding="utf-8")
    assert score("--predictions", lines, "--squad", tmp_path / "dev.json") == 2
    assert "one each, not one a line" in capsys.readouterr().err
