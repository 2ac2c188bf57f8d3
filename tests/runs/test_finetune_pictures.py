"""Pictures of a person's own labels and runs: as they are written, in a font that has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import font_manager, rcParams
from matplotlib.figure import Figure
from matplotlib.image import imread

from bertsmith.runs import finetune_pictures, fonts
from bertsmith.runs.finetune_pictures import draw_answers, draw_curves
from bertsmith.tasks.judged import Confusion, Groups, Judged


def judged_of(*labels: str) -> Judged:
    rows = tuple((label, 3, (0.5,)) for label in labels)
    return Judged(
        confusion=Confusion(labels=labels, counts=np.eye(len(labels), dtype=np.int64)),
        groups=(Groups(name="label", metrics=("f1",), rows=rows),),
    )


@pytest.fixture
def families(monkeypatch) -> list[list[str]]:
    """The families in force at every picture that is made."""
    found: list[list[str]] = []

    class Watched(Figure):
        def savefig(self, *args, **options) -> None:
            found.append(list(rcParams["font.family"]))
            super().savefig(*args, **options)

    monkeypatch.setattr("matplotlib.figure.Figure", Watched)
    return found


def test_a_font_that_has_a_label_or_a_runs_name_is_taken_wherever_it_is(
    monkeypatch, tmp_path: Path, families: list[list[str]]
) -> None:
    usual = next(each for each in font_manager.fontManager.ttflist if each.name == "DejaVu Sans")
    entry = font_manager.FontEntry(fname=usual.fname, name="Of Hangul", style="normal")
    monkeypatch.setattr(font_manager.fontManager, "ttflist", [usual, entry])
    characters = iter([set("abc"), set("긍정")] * 3)
    monkeypatch.setattr(fonts, "_characters_of", lambda _: next(characters))
    draw_answers(judged_of("긍정", "b"), tmp_path)
    draw_curves([("긍정", [{"step": 1, "loss": 1.0}])], tmp_path / "curves.png")
    assert len(families) == 3
    assert all(each[-1] == "Of Hangul" for each in families)


@pytest.mark.parametrize("label", [r"$\bad$", "$_^$", "5$ to 10$", "<b> & {"])
def test_signs_in_a_label_are_no_formula(label: str, tmp_path: Path) -> None:
    for path in draw_answers(judged_of(label, "b"), tmp_path):
        assert np.isfinite(imread(path)).all()
    rows = [{"step": step, "loss": 1.0, "evaluation_f1": 0.5} for step in (1, 2)]
    draw_curves([(label, rows), ("b", rows)], tmp_path / "curves.png")


def test_a_letter_that_no_font_has_is_drawn_as_a_box_without_a_warning(
    monkeypatch, tmp_path: Path, recwarn
) -> None:
    usual = [each for each in font_manager.fontManager.ttflist if each.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    (confusion, by_label) = draw_answers(judged_of("긍정", "b"), tmp_path)
    assert {confusion.name, by_label.name} == {"confusion.png", "by-label.png"}
    assert not [each for each in recwarn if "Glyph" in str(each.message)]


def test_a_label_too_many_makes_no_table_of_confusions(tmp_path: Path) -> None:
    most = finetune_pictures._MOST_LABELS
    for count, names in ((most, {"confusion.png"}), (most + 1, set())):
        judged = Judged(confusion=judged_of(*map(str, range(count))).confusion)
        assert {path.name for path in draw_answers(judged, tmp_path)} == names
