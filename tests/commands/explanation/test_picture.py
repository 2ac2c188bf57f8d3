"""Pictures: whole, readable, the same for the same words, and text that stays text."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.image import imread

from bertsmith.commands.explanation.picture import draw
from bertsmith.commands.explanation.terminal import lines
from bertsmith.commands.explanation.words import Chosen
from bertsmith.data.config import Masking
from bertsmith.tasks.hidden_places import Hiding
from tests.tasks.figures import KOREAN, LANGUAGE_MODEL, PAIR, TOKENS, figure_predictor

pytestmark = pytest.mark.drawn

CHOSEN = Chosen(model="figures", layer=2, head=None)
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def found():
    return figure_predictor("masked_lm", "next_sentence").explain(*PAIR)


def words_in(path):
    return ["".join(text.itertext()) for text in ElementTree.parse(path).iter(f"{SVG}text")]


def test_a_png_can_be_read_and_is_not_blank(found, tmp_path) -> None:
    draw(found, CHOSEN, tmp_path / "a.png")
    picture = imread(tmp_path / "a.png")
    assert picture.shape[1] == 11 * 130
    assert picture.shape[0] > picture.shape[1]
    rows = (picture[..., :3] < 0.9).any(axis=(1, 2))
    assert rows.mean() > 0.5  # something in more than half of the lines
    assert not rows[:20].any()
    assert not rows[-20:].any()


def test_an_svg_holds_every_word_as_text(found, tmp_path) -> None:
    draw(found, CHOSEN, tmp_path / "a.svg")
    words = words_in(tmp_path / "a.svg")
    for token in TOKENS:
        assert words.count(token) >= TOKENS.count(token)
    for title in ("What it reads (Figure 2)", "IsNext", "BERT: both sides", "OpenAI GPT"):
        assert any(title in each for each in words), title
    assert words.count("✓") >= 2
    assert words.count("[MASK]") >= 2
    assert [each for each in words if each.startswith("head ")] == [
        "head 1",
        "head 2",
        "head 3",
        "head 4",
    ]
    assert [each for each in words if each.startswith("layer ")] == ["layer 1", "layer 2"]


def test_there_is_a_map_for_every_head_beside_the_chosen_and_both_ways_of_reading(
    found, tmp_path
) -> None:
    draw(found, CHOSEN, tmp_path / "a.svg")
    images = list(ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}image"))
    assert len(images) == 2 * 4 + 1 + 2


def test_equal_words_make_equal_files(found, tmp_path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(found, CHOSEN, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_hangul_stays_text_with_a_generic_family(tmp_path) -> None:
    korean = figure_predictor("masked_lm").explain(KOREAN)
    draw(korean, CHOSEN, tmp_path / "a.svg")
    assert {"피", "##곤", "보이"} <= set(words_in(tmp_path / "a.svg"))
    for text in ElementTree.parse(tmp_path / "a.svg").iter(f"{SVG}text"):
        assert "sans-serif; " in text.get("style", "")


def test_what_no_font_has_is_said(tmp_path, monkeypatch) -> None:
    usual = [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", usual)
    korean = figure_predictor("masked_lm").explain(KOREAN)
    (told,) = draw(korean, CHOSEN, tmp_path / "a.png")
    assert told.startswith("no font here has ")
    assert "보" in told
    assert "boxes in their place" in told
    assert (tmp_path / "a.png").stat().st_size > 10_000
    (told,) = draw(korean, CHOSEN, tmp_path / "a.svg")
    assert "holds them as text" in told


@pytest.mark.parametrize("direction", LANGUAGE_MODEL)
@pytest.mark.parametrize("head", [None, 3])
def test_every_kind_of_model_is_drawn(tmp_path, direction, head) -> None:
    predictor = figure_predictor(LANGUAGE_MODEL[direction], direction=direction)
    chosen = Chosen(model="figures", layer=1, head=head)
    draw(predictor.explain(*PAIR), chosen, tmp_path / "a.svg")
    words = words_in(tmp_path / "a.svg")
    assert ("ELMo: right to left (this model)" in words) == (direction == "right_to_left")
    assert ("From both sides, and from the left alone" in words) == (direction == "bidirectional")
    assert any("head 3 of 4" in each for each in words) == (head == 3)


def test_a_model_without_heads_is_drawn_without_what_needs_them(tmp_path) -> None:
    draw(figure_predictor().explain(*PAIR), CHOSEN, tmp_path / "a.svg")
    words = words_in(tmp_path / "a.svg")
    assert "IsNext" not in words
    assert "✓" not in words
    assert "fate" in words


@pytest.mark.parametrize("layer_kind", ["transformer", "lstm"])
def test_a_model_of_two_halves_is_drawn_as_these(tmp_path, layer_kind) -> None:
    found = figure_predictor(direction="two_way", layer_kind=layer_kind).explain(*PAIR)
    draw(found, CHOSEN, tmp_path / "a.svg")
    in_picture = words_in(tmp_path / "a.svg")
    in_terminal = [line.plain for line in lines(found, CHOSEN, 80)]
    assert "ELMo: right to left (half of this model)" in in_picture
    assert any(line.count("half of this model") == 2 for line in in_terminal)
    for shown in (in_picture, in_terminal):
        assert not [line for line in shown if "Attention" in line or "foretells" in line]
        assert ("LSTM layers" in shown[0]) == (layer_kind == "lstm")


def test_signs_that_mean_something_to_a_drawer_are_drawn_as_they_are(tmp_path) -> None:
    found = figure_predictor("masked_lm").explain("my dog $ & < _ ^ \\ { cute")
    chosen = Chosen(model="$a_1$ & <b>", layer=1, head=None)
    draw(found, chosen, tmp_path / "a.svg")
    assert words_in(tmp_path / "a.svg")[0].startswith("$a_1$ & <b>: 2 layers")
    draw(found, chosen, tmp_path / "a.png")


def test_a_long_text_with_everything_hidden_fits_on_one_picture(tmp_path) -> None:
    predictor = figure_predictor("masked_lm")
    hiding = Hiding(masking=Masking(rate=1.0))
    draw(predictor.explain("dog " * 22, hiding=hiding), CHOSEN, tmp_path / "a.png")
    assert np.isfinite(imread(tmp_path / "a.png")).all()
