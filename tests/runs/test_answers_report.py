"""A report of answers: what is printed, and what lies in its folder."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertsmith.files import read_json
from bertsmith.runs import answers_report
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.finetune_report import Scores, write_scores
from bertsmith.tasks.judged import Certainty, Confusion, Groups, Judged, Mistake, Numbers
from bertsmith.tasks.metrics import Interval

SCORES = Scores(
    num_examples=1_234, values={"f1": 0.5}, intervals={"f1": Interval(low=0.4, high=0.6)}
)
JUDGED = Judged(
    mistakes=(
        Mistake(place="x.csv:3", asked="a *bold*\ntext", right="no", answer="yes", probability=0.9),
    ),
    num_mistakes=7,
    groups=(
        Groups(name="label", metrics=("f1",), rows=(("a|b", 1_200, (0.75,)), ("예", 34, (0.25,)))),
    ),
    certainty=Certainty(
        of="texts", probabilities=np.array([0.9, 0.6]), is_right=np.array([True, False])
    ),
    confusion=Confusion(labels=("a|b", "예"), counts=np.array([[5, 0], [1, 2]])),
    numbers=Numbers(predicted=np.array([1.0, 2.0]), right=np.array([1.0, 3.0])),
)
ROWS = (
    {"step": 1, "loss": 0.7},
    {"step": 2, "loss": 0.6},
    {"step": 2, "evaluation_f1": 0.5, "is_best": True},
)
DESCRIBED = Described(title="run", examples="Dev of mine", metrics_rows=ROWS)


def test_tables_have_columns_and_the_calibration_error_is_explained() -> None:
    assert told(JUDGED) == [
        "  label  count    f1",
        "  a|b    1,200  0.75",
        "  예         34  0.25",
        "  calibration error (ECE) 0.350: how far the probabilities of 2 answers are from the "
        "share that is right, in the mean",
    ]


def test_what_the_scored_examples_lack_is_told(tmp_path: Path) -> None:
    lacking = replace(SCORES, remarks=("1 of the 3 labels",))
    assert lacking.lines()[1:] == ["  1 of the 3 labels"]
    write_report(tmp_path, DESCRIBED, lacking, JUDGED)
    assert "\n1 of the 3 labels.\n" in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_score_without_an_interval_has_none_in_any_place(tmp_path: Path) -> None:
    certain = Scores(
        num_examples=8,
        values={"accuracy": 1.0, "f1": 0.5, "f1 of a rare one": 1.0},
        intervals={"accuracy": None, "f1": Interval(low=0.4, high=0.6)},
    )
    assert [line.split("  ")[-1] for line in certain.lines()] == ["1", "(95%: 0.4 to 0.6)", "1"]
    write_report(tmp_path / "report", DESCRIBED, certain, JUDGED)
    readme = (tmp_path / "report" / "README.md").read_text(encoding="utf-8")
    assert "| accuracy | 1 |  |" in readme
    assert "| f1 of a rare one | 1 |  |" in readme
    write_scores(tmp_path, certain, 3, tuned="", chosen="")
    written = read_json(tmp_path / "scores.json")
    assert written["intervals_95"] == {"accuracy": None, "f1": [0.4, 0.6]}


@pytest.mark.filterwarnings("error")
def test_a_folder_explains_itself_with_pictures_and_the_worst_answers(tmp_path: Path) -> None:
    lines = write_report(tmp_path, DESCRIBED, SCORES, JUDGED)
    readme = (tmp_path / "README.md").read_text(encoding="utf-8")
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    assert pictures == [
        "by-label.png", "calibration.png", "confusion.png", "curves.png", "numbers.png",
    ]  # fmt: skip
    for name in pictures:
        assert f"]({name})" in readme
    assert "| f1 | 0.5 | 0.4 to 0.6 |" in readme
    assert "| a/b | 1,200 | 0.75 |" in readme
    assert "On 1,234 examples, Dev of mine" in readme
    worst = (tmp_path / "worst.md").read_text(encoding="utf-8")
    assert "the surest 1 of 7 wrong answers" in worst
    assert "1. x.csv:3, sure by 90.0%" in worst
    assert "       asked: a *bold* text" in worst
    assert lines == [
        f"the worst answers, to read: {tmp_path / 'worst.md'}",
        f"results and pictures: {tmp_path / 'README.md'}",
    ]
    require_place(tmp_path)
    write_report(tmp_path, DESCRIBED, SCORES, Judged())
    assert not (tmp_path / "worst.md").exists()


def test_without_matplotlib_the_rest_is_written_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else found(name)
    )
    lines = write_report(tmp_path, DESCRIBED, SCORES, JUDGED)
    assert sum("matplotlib is not installed" in line for line in lines) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"README.md", "worst.md"}
    assert ".png" not in (tmp_path / "README.md").read_text(encoding="utf-8")


def test_a_report_does_not_go_among_other_files(tmp_path: Path) -> None:
    require_place(tmp_path / "new")
    (tmp_path / "model.safetensors").write_text("")
    with pytest.raises(ValueError, match=r"other files, model\.safetensors among them"):
        require_place(tmp_path)
    with pytest.raises(ValueError, match="is a file"):
        require_place(tmp_path / "model.safetensors")


def test_a_persons_own_readme_is_never_replaced(tmp_path: Path) -> None:
    mine = tmp_path / "README.md"
    mine.write_text("# What I know of this model\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"holds other files, README\.md among them"):
        require_place(tmp_path)
    mine.unlink()
    (tmp_path / "confusion.png").touch()
    with pytest.raises(ValueError, match=r"holds other files, confusion\.png among them"):
        require_place(tmp_path)
    write_report(tmp_path, DESCRIBED, SCORES, JUDGED)
    require_place(tmp_path)


def test_long_tables_are_cut_on_the_console_and_that_is_said() -> None:
    rows = tuple((str(number), 1, (0.5,)) for number in range(answers_report._MOST_ROWS + 5))
    groups = Groups(name="label", metrics=("f1",), rows=rows)
    *_, last = told(Judged(groups=(groups,)))
    assert last == "  and 5 more"
