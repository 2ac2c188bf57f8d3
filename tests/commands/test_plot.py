"""Curves: windows of steps, one picture for one run or several, and clear mistakes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bertsmith.commands.plot import Plot, draw, plot, smoothed
from bertsmith.recipes.pretraining import mini_cpu
from bertsmith.runs.directory import Record, write_record

pytestmark = pytest.mark.drawn


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    directory = tmp_path / "run"
    directory.mkdir()
    write_record(
        directory,
        Record(
            run=mini_cpu(),
            corpus=directory / "corpus",
            corpus_fingerprint="0" * 64,
            command="bertsmith pretrain texts",
            request={},
            notes=(),
            seconds_per_step=(0.1,),
            peak_bytes=1,
            unigram_entropy=6.5,
            versions={},
        ),
    )
    rows = [
        {"step": step, "masked_lm_loss": 8 - step / 100, "masked_lm_accuracy": step / 1000,
         "next_sentence_loss": 0.7, "next_sentence_accuracy": 0.5, "learning_rate": step * 1e-6,
         "tokens": 7000, "seconds": 0.5}
        for step in range(1, 300)
    ]  # fmt: skip
    rows.append({"step": 299, "evaluation_loss": 5.0, "evaluation_accuracy": 0.3})
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (directory / "metrics.jsonl").write_text(lines, encoding="utf-8")
    return directory


def test_a_run_is_drawn_into_its_own_directory(
    run_directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot(Plot(runs=(run_directory,)))
    assert (run_directory / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert str(run_directory / "curves.png") in capsys.readouterr().out


def test_several_runs_leave_the_picture_of_the_first_one_as_it_is(
    run_directory: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    shutil.copytree(run_directory, other)
    (run_directory / "curves.png").write_bytes(b"its own")
    plot(Plot(runs=(run_directory, other)))
    assert (run_directory / "curves.png").read_bytes() == b"its own"
    assert (run_directory / "comparison.png").read_bytes().startswith(b"\x89PNG")


def test_the_curves_the_unigram_line_and_the_held_out_points_are_in_the_picture(
    run_directory: Path, tmp_path: Path
) -> None:
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw([run_directory], tmp_path / "one.svg")
    picture = (tmp_path / "one.svg").read_text(encoding="utf-8")
    for name in (
        "training, 30% masked",
        "held out, 15% masked",
        "unigram",
        "masked lm",
        "next sentence",
        "learning rate",
    ):
        assert name in picture


def test_several_runs_are_told_apart_by_their_names(run_directory: Path, tmp_path: Path) -> None:
    import matplotlib

    other = tmp_path / "other"
    other.mkdir()
    for name in ("run.json", "metrics.jsonl"):
        (other / name).write_bytes((run_directory / name).read_bytes())
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw([run_directory, other], tmp_path / "two.svg")
    picture = (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert "run training" in picture
    assert "other training" in picture


def test_a_runs_name_is_drawn_as_it_is_written(
    run_directory: Path, tmp_path: Path, monkeypatch, recwarn
) -> None:
    """From fonts that have its letters; a box without a warning where there is none; no formula."""
    import matplotlib
    from matplotlib import font_manager

    named = run_directory.rename(tmp_path / "감성 $_^$")
    usual = [each for each in font_manager.fontManager.ttflist if each.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    draw([named], tmp_path / "one.png")
    assert not [each for each in recwarn if "Glyph" in str(each.message)]
    entry = font_manager.FontEntry(fname=usual[0].fname, name="Of Hangul", style="normal")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [*usual, entry])
    characters = iter([set("$_^"), set("감성")])
    monkeypatch.setattr("bertsmith.runs.fonts._characters_of", lambda _: next(characters))
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        draw([named], tmp_path / "one.svg")
    picture = (tmp_path / "one.svg").read_text(encoding="utf-8")
    (title,) = [line for line in picture.splitlines() if "감성 $_^$" in line and "<text" in line]
    assert "'Of Hangul'" in title


def test_a_curve_is_the_means_over_equal_windows() -> None:
    steps, values = smoothed(range(1, 401), [float(step % 2) for step in range(400)])
    assert len(steps) == 200
    assert steps[:2] == [1.5, 3.5]
    assert set(values) == {0.5}


def test_few_points_are_drawn_as_they_are() -> None:
    assert smoothed([3, 4], [1.0, 2.0]) == ([3.0, 4.0], [1.0, 2.0])
    assert smoothed([], []) == ([], [])


@pytest.mark.parametrize(("name", "message"), [("x.docx", "unknown kind of picture 'docx'")])
def test_an_unknown_kind_of_picture_is_refused(
    run_directory: Path, tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        draw([run_directory], tmp_path / name)


def test_a_run_without_steps_has_nothing_to_draw(run_directory: Path) -> None:
    (run_directory / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="holds no steps yet"):
        draw([run_directory], run_directory / "curves.png")


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not the directory of a run"):
        draw([tmp_path], tmp_path / "curves.png")
