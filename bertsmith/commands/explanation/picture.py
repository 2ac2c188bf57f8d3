"""An explanation -> one long picture: the paper's Figures 1 to 3 of a person's own words.

Everything that the terminal shows, and attention of all layers and heads. It computes nothing.

Source: Devlin et al. 2018, Figures 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from bertsmith.commands.explanation import words
from bertsmith.commands.explanation.aligned import printable
from bertsmith.commands.explanation.maps import draw_attention, draw_sight
from bertsmith.commands.explanation.page import (
    INK,
    MARGIN,
    PALE,
    RIGHT,
    WIDTH,
    Page,
    cut,
    drawn_with,
    headed,
    titled,
    width_of,
)
from bertsmith.commands.explanation.words import Chosen
from bertsmith.runs.fonts import families_for
from bertsmith.tasks.explanation import Explanation, Guess
from bertsmith.tasks.hidden_places import Fate

_INPUT, _TOKEN, _POSITION = "#f8cecc", "#fff2cc", "#f5f5f5"
_SEGMENTS = ("#d5e8d4", "#e1d5e7")
_FATES: dict[Fate, str] = {"mask": "#f4a6a0", "random": "#ffd27f", "kept": "#a9d3f5"}
_ROW_NAMES = ("input", "token", "segment", "position")
_NAME_WIDTH, _BOX_HEIGHT, _STEP, _GAP = 0.8, 0.28, 0.42, 0.08
_GUESS_WIDTH, _LINE_HEIGHT = 2.45, 0.19
_NOT_LETTERS = "E✓→…"
"""Characters that the picture adds."""


def draw(found: Explanation, chosen: Chosen, path: Path) -> list[str]:
    """Writes the picture; returns what is to be told of it."""
    families, missing = families_for(_characters(found, chosen))
    with drawn_with(families):
        page = Page()
        headed(page, words.heading(found, chosen))
        titled(page, words.input_title(found), words.INPUT_LINE)
        _draw_input(page, found)
        if words.shows_places(found):
            titled(page, words.hidden_title(found), words.hidden_line(found))
            _draw_hidden(page, found)
        if found.follows is not None:
            titled(page, words.NEXT_TITLE, words.NEXT_LINE)
            _draw_follows(page, found.follows)
        titled(page, words.SIGHT_TITLE, words.sight_line(found))
        draw_sight(page, found)
        if found.one_sided:
            titled(page, words.ONE_SIDED_TITLE, words.one_sided_line(found))
            _draw_one_sided(page, found)
        if found.inside is not None:
            titled(page, words.attention_title(found, chosen), words.ATTENTION_LINE)
            draw_attention(page, found.inside, chosen)
        page.write(path)
    return _told(missing, is_text=path.suffix.lower() == ".svg")


def _characters(found: Explanation, chosen: Chosen) -> str:
    """All that may be drawn, once or more."""
    guesses = chain(found.guesses or (), *((each.both, each.left) for each in found.one_sided))
    candidates = (each.token for guess in guesses for each in guess.candidates)
    own = chain(found.hidden.question.tokens, found.seen, candidates)
    return printable("".join(own) + chosen.model) + _NOT_LETTERS


def _told(missing: str, *, is_text: bool) -> list[str]:
    if not missing:
        return []
    shown = " ".join(missing[:10]) + (" …" if len(missing) > 10 else "")
    if is_text:
        return [
            f"no font here has {shown}: the file holds them as text, and is drawn as it should be "
            f"where there is one, as in most browsers"
        ]
    return [
        f"no font here has {shown}: the picture shows boxes in their place; install one that has "
        f"(such as Noto Sans CJK), or write an .svg, which any browser draws with its own fonts"
    ]


def _draw_input(page: Page, found: Explanation) -> None:
    """Figure 2: the input, and under it the three embeddings whose sum it is."""
    question = found.hidden.question
    segments = question.item.segment_ids.tolist()
    for numbers in _rows_of_boxes([(token,) for token in question.tokens]):
        for place, name in enumerate(_ROW_NAMES):
            page.words(MARGIN, page.y + place * _STEP + _BOX_HEIGHT / 2, name, color=PALE)
        x = MARGIN + _NAME_WIDTH
        for number in numbers:
            token, segment = question.tokens[number], segments[number]
            width = _box_width((token,))
            marks = ("", token, "AB"[segment], str(number))
            colors = (_INPUT, _TOKEN, _SEGMENTS[segment], _POSITION)
            for place, (mark, color) in enumerate(zip(marks, colors, strict=True)):
                y = page.y + place * _STEP
                page.box(x, y, width, _BOX_HEIGHT, color)
                middle, line = x + width / 2, y + _BOX_HEIGHT / 2
                if mark:
                    _draw_embedding(page, middle, line, mark)
                    page.words(middle, y - 0.08, "=" if place == 1 else "+", align="center", size=7)
                else:
                    page.words(middle, line, cut(token, width), align="center", is_bold=True)
            x += width + _GAP
        page.y += len(_ROW_NAMES) * _STEP + 0.12


def _draw_embedding(page: Page, middle: float, line: float, mark: str) -> None:
    """`E` with the mark as its index."""
    begin = middle - (width_of("E") + width_of(mark, 7)) / 2
    page.words(begin, line, "E")
    page.words(begin + width_of("E"), line + 0.04, cut(mark, 3.0, 7), size=7)


def _draw_hidden(page: Page, found: Explanation) -> None:
    """What the model reads, a box a token, and what it expects at the places."""
    if found.config.direction == "bidirectional":
        pairs = list(zip(found.hidden.question.tokens, found.seen, strict=True))
        for numbers in _rows_of_boxes(pairs):
            _draw_masked(page, found, numbers)
    if found.guesses:
        titles = [words.place_title(found, place) for place in found.hidden.places]
        _draw_guesses(page, list(zip(titles, found.guesses, strict=True)))


def _draw_masked(page: Page, found: Explanation, numbers: Sequence[int]) -> None:
    """A row of boxes: each token, in its box what is read, and what became of it."""
    fates = {place.row: place.fate for place in found.hidden.places}
    x = MARGIN + _NAME_WIDTH
    for line, name in enumerate(("token", "it reads", "fate")):
        page.words(MARGIN, page.y + 0.1 + line * 0.3, name, color=PALE)
    for number in numbers:
        token, seen = found.hidden.question.tokens[number], found.seen[number]
        fate = fates.get(number)
        width = _box_width((token, seen))
        middle = x + width / 2
        page.words(middle, page.y + 0.1, cut(token, width), align="center", color=PALE)
        page.box(x, page.y + 0.26, width, _BOX_HEIGHT, _FATES[fate] if fate else _POSITION)
        is_hidden = fate is not None
        page.words(middle, page.y + 0.4, cut(seen, width), align="center", is_bold=is_hidden)
        page.words(middle, page.y + 0.7, words.FATES[fate] if fate else "", align="center", size=8)
        x += width + _GAP
    page.y += 0.95


def _draw_guesses(page: Page, guesses: Sequence[tuple[str, Guess]]) -> None:
    """Side by side, each under its title, as many in a row as fit."""
    abreast = int((WIDTH - 2 * MARGIN) // _GUESS_WIDTH)
    for start in range(0, len(guesses), abreast):
        lowest = page.y
        for column, (title, guess) in enumerate(guesses[start : start + abreast]):
            x = MARGIN + column * (_GUESS_WIDTH + 0.1)
            page.words(x, page.y, cut(title, _GUESS_WIDTH - 0.1), is_bold=True)
            lowest = max(lowest, _draw_guess(page, x, page.y + 0.22, guess))
        page.y = lowest + 0.15


def _draw_guess(page: Page, x: float, y: float, guess: Guess) -> float:
    """A bar a candidate, and what stands there if it is none of them; returns where it ends."""
    for each in words.shown(guess):
        is_right = guess.right is not None and each.token_id == guess.right.token_id
        color = RIGHT if is_right else INK
        page.words(x, y, "✓" if is_right else "", color=color)
        page.words(x + 0.17, y, cut(each.token, 0.85), color=color, is_bold=is_right)
        page.words(x + 1.5, y, words.percent(each.probability), align="right", color=color)
        page.bar(x + 1.57, y, 0.8 * each.probability, 0.11)
        if is_right:
            page.words(x + 1.62 + 0.8 * each.probability, y, words.rank_of(guess), size=7)
        y += _LINE_HEIGHT
    return y


def _draw_follows(page: Page, probability: float) -> None:
    for name, share in (("IsNext", probability), ("NotNext", 1.0 - probability)):
        page.words(MARGIN, page.y, name)
        page.words(MARGIN + 1.5, page.y, words.percent(share), align="right")
        page.bar(MARGIN + 1.6, page.y, 4.0 * share, 0.13)
        page.y += _LINE_HEIGHT + 0.03


def _draw_one_sided(page: Page, found: Explanation) -> None:
    """Side by side, what is expected at a place with both sides, and with the left alone."""
    blocks, same = [], []
    for place, each in zip(found.hidden.places, found.one_sided, strict=True):
        name = f"{place.row} {found.hidden.question.tokens[place.row]}"
        if place.row == len(found.seen) - 2:
            same.append(f"{name}: {words.NOTHING_BEHIND}")
        else:
            blocks += [(f"{name}, both sides", each.both), (f"{name}, left alone", each.left)]
    _draw_guesses(page, blocks)
    for line in same:
        page.words(MARGIN, page.y, line)
        page.y += 0.3


def _rows_of_boxes(texts: Sequence[Sequence[str]]) -> Iterator[list[int]]:
    """The numbers of the boxes of every row; each box is as wide as the widest of its texts."""
    numbers: list[int] = []
    room = WIDTH - 2 * MARGIN - _NAME_WIDTH
    used = 0.0
    for number, each in enumerate(texts):
        width = _box_width(each) + _GAP
        if numbers and used + width > room + _GAP:
            yield numbers
            numbers, used = [], 0.0
        numbers.append(number)
        used += width
    yield numbers


def _box_width(texts: Sequence[str]) -> float:
    return min(WIDTH / 2, max(0.42, *(width_of(text) + 0.18 for text in texts)))
