"""Exact match and F1 are those of the official evaluators, to the digit."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bertsmith.tasks.squad_scores import (
    SquadVersion,
    best_null_threshold,
    normalised,
    normalised_korean,
    question_scores,
    squad_scores,
)


def test_normalisation_drops_case_punctuation_articles_and_blanks() -> None:
    assert normalised("  The U.S.  President,\ta theory ") == "us president theory"
    assert normalised("an") == ""
    assert normalised_korean("《겨울 왕국》(2013)") == "겨울 왕국 2013"


@pytest.mark.parametrize(
    ("version", "predicted", "answers", "exact", "f1"),
    [
        ("1.1", "the red fox", ["Red Fox!", "dog"], 1.0, 1.0),
        ("1.1", "a red fox ran", ["red fox"], 0.0, 2 * 2 / 5),
        ("1.1", "red red", ["red"], 0.0, 2 * 1 / 3),
        ("1.1", "", ["red"], 0.0, 0.0),
        ("1.1", "the", ["a"], 1.0, 0.0),  # equal when nothing is left; no word is shared
        ("2.0", "the", ["a"], 1.0, 1.0),
        ("2.0", "", [], 1.0, 1.0),
        ("2.0", "red", [], 0.0, 0.0),
        ("2.0", "", ["red"], 0.0, 0.0),
        ("korquad", "1989년 2월", ["1989년 2월 15일"], 0.0, 2 * 7 / (7 + 10)),
        ("korquad", "〈백설 공주〉", ["백설공주"], 0.0, 1.0),
    ],
)
def test_scores_of_one_question(
    version: SquadVersion, predicted: str, answers: list[str], exact: float, f1: float
) -> None:
    found = question_scores({"q": predicted}, {"q": answers}, version)
    assert found == ({"q": exact}, {"q": pytest.approx(f1)})


def test_a_missing_prediction_is_wrong_in_version_one_and_left_out_in_two() -> None:
    gold = {"a": ["x"], "b": ["y"]}
    first, second = (squad_scores({"a": "x"}, gold, version) for version in ("1.1", "2.0"))
    assert (first.exact, first.num_questions) == (50.0, 2)
    assert (second.exact, second.num_questions) == (100.0, 1)
    with pytest.raises(ValueError, match="no question"):
        squad_scores({}, {})


def test_the_best_threshold_answers_what_is_surer_than_it() -> None:
    gold: dict[str, list[str]] = {"a": ["x"], "b": [], "c": ["z"], "d": []}
    odds = {"a": -2.0, "c": -1.0, "b": 1.0, "d": 2.0}
    predictions = dict.fromkeys(gold, "x")
    found = best_null_threshold({"a": 1.0, "b": 0.0, "c": 0.5, "d": 0.0}, predictions, odds, gold)
    assert (found.score, found.threshold) == (100 * 3.5 / 4, -1.0)


def _data(name: str) -> Any:
    path = Path(os.environ["BERTSMITH_DATA"]) / "squad" / name
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def _gold(squad: Mapping[str, Any]) -> dict[str, list[str]]:
    questions = (
        question
        for article in squad["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    )
    return {
        question["id"]: [answer["text"] for answer in question["answers"]] for question in questions
    }


@pytest.mark.data
@pytest.mark.parametrize("name", ["bert-ensemble-v1.1.json", "logreg-v1.1.json"])
def test_official_predictions_of_version_one_score_as_the_official_evaluator_says(
    name: str,
) -> None:
    golden = _data("predictions/golden_scores.json")[name]
    found = squad_scores(_data(f"predictions/{name}.gz"), _gold(_data("dev-v1.1.json.gz")))
    assert found.num_questions == golden["total"]
    assert (found.exact, found.f1) == (
        pytest.approx(golden["exact_match"], abs=1e-9),
        pytest.approx(golden["f1"], abs=1e-9),
    )


@pytest.mark.data
def test_official_predictions_of_version_two_score_as_the_official_evaluator_says() -> None:
    golden = _data("predictions/golden_scores.json")["bert-single-v2.0.json"]
    predictions = _data("predictions/bert-single-v2.0.json.gz")
    gold = _gold(_data("dev-v2.0.json.gz"))
    parts = {
        "": gold,
        "HasAns_": {key: answers for key, answers in gold.items() if answers},
        "NoAns_": {key: answers for key, answers in gold.items() if not answers},
    }
    for prefix, part in parts.items():
        found = squad_scores(predictions, part, "2.0")
        assert found.num_questions == golden[f"{prefix}total"]
        assert found.exact == pytest.approx(golden[f"{prefix}exact"], abs=1e-9)
        assert found.f1 == pytest.approx(golden[f"{prefix}f1"], abs=1e-9)
