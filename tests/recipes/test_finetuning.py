"""A fine-tuning run as a value: the paper's numbers, to JSON and back, and what contradicts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bertsmith.recipes.finetuning import (
    GRIDS,
    PAPER_GRID,
    RECIPES,
    FinetuneRun,
    from_json,
    glue,
    to_json,
)


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_survives_json(name: str) -> None:
    run = RECIPES[name]()
    assert run.name == name
    assert from_json(json.loads(json.dumps(to_json(run)))) == run


@pytest.mark.parametrize(
    ("name", "batch_size", "epochs", "rate"),
    [
        ("glue", 32, 3, 5e-5),
        ("squad", 32, 3, 5e-5),
        ("squad2", 48, 2, 5e-5),
        ("swag", 16, 3, 2e-5),
    ],
)
def test_the_papers_values(name: str, batch_size: int, epochs: float, rate: float) -> None:
    run = RECIPES[name]()
    assert (run.batch_size, run.epochs, run.optimizer.learning_rate) == (batch_size, epochs, rate)
    assert run.optimizer.name == "bert_adam"
    assert run.warmup_share == 0.1


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_a_point_of_its_grid(name: str) -> None:
    run = RECIPES[name]()
    assert run in GRIDS[name].runs(run)


def test_a_grid_has_each_value_with_each() -> None:
    runs = PAPER_GRID.runs(glue())
    assert len(set(map(repr, runs))) == 18
    rates = [run.optimizer.learning_rate for run in GRIDS["glue"].runs(glue())]
    assert rates == [5e-5, 4e-5, 3e-5, 2e-5]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"epochs": 0.0}, "epochs must be a number above 0, found 0.0"),
        ({"save_every": float("inf")}, "save_every must be a number above 0"),
        ({"evaluate_every": float("nan")}, "evaluate_every must be a number above 0"),
        ({"warmup_share": 1.0}, r"warmup_share must be in \[0, 1\), found 1.0"),
        ({"batch_size": 0}, "batch_size must be at least 1, found 0"),
        ({"frozen_layers": -1}, "frozen_layers must be at least 0, found -1"),
        ({"accumulation": 33}, "a step of 32 examples cannot be cut into 33 micro-batches"),
        ({"layers": "lst"}, "there are no layers 'lst'; did you mean 'last'"),
        ({"pooling": "mean"}, "layers last and pooling mean are of frozen features"),
        ({"approach": "feature_based", "frozen_layers": 1}, "leave frozen_layers out"),
        ({"lstm_layers": 0}, "lstm_layers must be at least 1, found 0"),
        ({"lstm_size": 64}, "are of the BiLSTM on top, and on_top is nothing"),
        ({"patience": 2, "keep_best": False}, "the better model would be lost"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        replace(FinetuneRun(), **changes)  # type: ignore[arg-type]
