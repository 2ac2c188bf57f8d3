"""The labelled sets of experiments, and what guessing reaches on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bertsmith.commands.reproduction import exam_sets
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.tasks.guessing import best_constant
from tests.commands.small_reproduction import experiment, small_scale, write_squad


def test_what_guessing_reaches_is_asked_once_of_a_set_and_a_metric(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_squad(tmp_path, "squad/train-v1.1.json", "squad/dev-v1.1.json")
    scale = small_scale()
    f1 = scale.score(scale.bert(), "SQuAD 1.1")
    exact = replace(f1, metric="exact")
    sets = ExamSets.read([experiment(f1, exact)], tmp_path)
    task, dev = sets.of(f1).task, sets.of(f1).dev
    asked: list[str] = []

    def counted(task: object, dev: object, metric: str) -> object:
        asked.append(metric)
        return best_constant(task, dev, metric)  # type: ignore[arg-type]

    monkeypatch.setattr(exam_sets, "best_constant", counted)
    for score, metric in ((f1, "f1"), (exact, "exact"), (replace(f1, metric="f1"), "f1")):
        for _ in range(2):
            found = best_constant(task, dev, metric)
            assert found is not None
            assert sets.reached_by_guessing(score) == found.score
    assert asked == ["f1", "exact"]
