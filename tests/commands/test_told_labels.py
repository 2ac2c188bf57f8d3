"""What is said of labels before fine-tuning: short, once, and nothing of them is passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.commands.small_files import RUN, drawn, tagged
from tests.commands.small_task import bertsmith, write_model

WORDS = ("the", "dog", "cat", "likes", "my", "he", "is")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has learned nothing."""
    return write_model(tmp_path_factory.mktemp("labels") / "model")


def table(path: Path, *labels: str) -> Path:
    """Texts that all differ, with these labels in turn."""
    rows = drawn(len(labels), 1)
    texts = [
        f"{number} {' '.join(WORDS[place] for place in row)}" for number, row in enumerate(rows)
    ]
    path.write_text("".join(f"{text},{label}\n" for text, label in zip(texts, labels, strict=True)))
    path.write_text(f"text,label\n{path.read_text()}")
    return path


def planned(model: Path, capsys: pytest.CaptureFixture[str], *options: object) -> list[str]:
    assert bertsmith("finetune", model, *options, *RUN, "--plan-only") == 0
    return capsys.readouterr().out.splitlines()


def test_many_labels_are_listed_once_and_short_and_kept_whole_in_the_runs_directory(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"topic {number}" for number in range(30)]
    train, dev = (
        table(tmp_path / "a.csv", *names * 2, names[4]),
        table(tmp_path / "b.csv", names[7]),
    )
    options = ("--texts", train, "--dev", dev, *RUN, "--epochs", "0.2", "--out", tmp_path / "run")
    assert bertsmith("finetune", model, *options) == 0
    told = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(told) if line.startswith("training"))
    assert told[at + 1].strip().startswith("topic 4 3 (4.9%), topic 0 2 (3.3%), ")
    assert ", and 10 more, the rarest topic 9 2 (3.3%)" in told[at + 1]
    assert told[at + 3].strip() == "1 of the 30 labels occurs, the most frequent topic 7: 1 time"
    counts = json.loads((tmp_path / "run" / "run.json").read_text())["label_counts"]
    assert counts["training"] == {name: 3 if name == names[4] else 2 for name in names}
    assert counts["Dev"] == {"topic 7": 1}


def test_whose_f1_is_measured_is_told_in_the_plan_with_the_scores_and_in_the_readme(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train, run = table(tmp_path / "a.csv", *("spam", "ham") * 8), tmp_path / "run"
    begin = ("finetune", model, "--texts", train, "--dev", train, *RUN, "--epochs", "0.2")
    said = (
        "f1 is that of the label 'spam' alone, the second of 2 in ascending order; macro_f1 is the "
        "mean over all"
    )
    assert bertsmith(*begin, "--metrics", "f1", "accuracy", "--out", run) == 0
    told = [line.strip() for line in capsys.readouterr().out.splitlines()]
    at = next(number for number, line in enumerate(told) if line.startswith("task"))
    assert told[at + 1] == said
    assert told.count(said) == 2  # the other below the scores
    assert f"\n{said}.\n" in (run / "README.md").read_text(encoding="utf-8")
    assert bertsmith("evaluate", run, "--texts", train) == 0
    assert said in capsys.readouterr().out
    assert said not in "\n".join(planned(model, capsys, "--texts", train, "--dev", train))


def test_labels_that_are_nearly_the_same_are_told_with_the_labels(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = ["Good", "good", "bad", "bad "] * 10
    lines = planned(model, capsys, "--texts", table(tmp_path / "a.csv", *labels))
    (line,) = [line for line in lines if "Good" in line and "%" in line and "alone" in line]
    assert "and are learned as several: 'Good' and 'good'" in line
    assert any(
        "a.csv: blanks around 10 labels are left out, the first at" in line for line in lines
    )
    path = tagged(tmp_path / "a.txt", 16, 1)
    path.write_text(path.read_text().replace("london I-LOC", "london I-Loc"))
    assert any("'LOC' and 'Loc'" in line for line in planned(model, capsys, "--tagged", path))


def test_a_label_named_twice_in_one_field_is_counted(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "a.csv", *["x|y|x", "y", "z|z"] * 10)
    options = ("--separator", "|", "--problem", "multi_label")
    lines = planned(model, capsys, "--texts", path, *options)
    (line,) = [line for line in lines if "more than once" in line]
    assert "a.csv: 20 rows name a label more than once, the first 'x' at " in line


def test_a_share_that_loses_a_label_is_mended_or_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in range(4):
        labels = ["common"] * 12
        labels[seed * 3] = "rare"
        path = table(tmp_path / f"{seed}.csv", *labels)
        lines = planned(model, capsys, "--texts", path, "--dev-share", "0.5")
        assert any("common 5 (83.3%), rare 1 (16.7%)" in line for line in lines)
        (line,) = [line for line in lines if "to evaluate on have" in line]
        assert "all to evaluate on have the label 'common', and there are 2" in line


def test_numbers_are_no_labels_to_keep(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table(tmp_path / "a.csv", *map(str, range(40)))
    lines = planned(model, capsys, "--texts", path, "--problem", "regression")
    assert any("to evaluate on: 4 of the 40 examples" in line for line in lines)
    assert not any("stand in no example" in line or "alone" in line for line in lines)
