"""A task beside a model's weights is found again, and what names none is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bertsmith.files import write_json
from bertsmith.tasks.classify import LabelScheme
from bertsmith.tasks.stored import TASK, Learned, read_learned, read_task, task_json
from bertsmith.tasks.task import Classification, to_json


def test_the_task_of_a_directory_is_the_one_that_was_written(tmp_path: Path) -> None:
    assert read_task(tmp_path) is None
    task = Classification(scheme=LabelScheme(("나쁨", "good")), metrics=("accuracy",))
    write_json(tmp_path / TASK, to_json(task))
    assert read_task(tmp_path) == task
    assert read_learned(tmp_path) == Learned()
    learned = Learned(name="후기", columns={"texts": ["후기"]})
    write_json(tmp_path / TASK, task_json(task, learned))
    assert (read_task(tmp_path), read_learned(tmp_path)) == (task, learned)
    assert "header" not in task_json(task, learned)["learned"]  # type: ignore[operator]
    numbered = Learned(columns={"texts": ["1"]}, has_header=False)
    write_json(tmp_path / TASK, task_json(task, numbered))
    assert read_learned(tmp_path) == numbered
    write_json(tmp_path / TASK, {**to_json(task), "learned": "x"})
    with pytest.raises(ValueError, match="learned must hold a name and columns, found 'x'"):
        read_learned(tmp_path)


def test_texts_of_another_number_than_was_learned_are_told() -> None:
    single, pairs = Learned(columns={"texts": ["a"]}), Learned(columns={"texts": ["a", "b"]})
    assert single.told_texts(2) == (
        "the model learned from single texts (a), and reads pairs of texts here"
    )
    assert pairs.told_texts(1) == (
        "the model learned from pairs of texts (a, b), and reads single texts here"
    )
    assert not any((single.told_texts(1), pairs.told_texts(2), Learned().told_texts(2)))


@pytest.mark.parametrize(
    "content",
    [{}, {"kind": "Translation"}, {"kind": "Classification"}, {"kind": "MultipleChoice", "x": 1}],
)
def test_what_is_no_task_is_refused_with_the_file(
    tmp_path: Path, content: dict[str, object]
) -> None:
    write_json(tmp_path / TASK, content)
    with pytest.raises(ValueError, match=r"task\.json names no task that this version knows"):
        read_task(tmp_path)
