"""An explanation -> its maps in a picture: what may look at what, and what looks at what.

Source: Devlin et al. 2018, Figure 3; Clark et al. 2019, What Does BERT Look At?

Legend: n tokens, L layers, A heads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bertsmith.commands.explanation import words
from bertsmith.commands.explanation.page import (
    MARGIN,
    PALE,
    WIDTH,
    FloatArray,
    Page,
    cut,
    width_of,
)
from bertsmith.commands.explanation.words import Chosen
from bertsmith.tasks.explanation import BoolArray, Explanation, visible
from bertsmith.tasks.look import Look

_MOST_IN_A_NET, _MOST_NAMED = 24, 60
"""Tokens; more lines are a blot, and more names are too small to read."""
_NET_HEIGHT = 1.5
_LEVELS = (("E", "#fff2cc"), ("Trm", "#b9cdea"), ("T", "#d5e8d4"))
_LINE = "#9a9a9a"
_MOST_FOR_NAMES, _NAME, _LEAST_BESIDE = 0.9, 0.6, 0.9
"""Inches: for a token's name, for a layer's, for a head's map beside the large one."""


def draw_sight(page: Page, found: Explanation) -> None:
    """For each way of reading Figure 3's net of two layers, and under it its map."""
    tokens = found.hidden.question.tokens
    directions = words.shown_directions(found)
    room = (WIDTH - 2 * MARGIN) / len(directions)
    beginning = page.y
    lowest = 0.0
    for number, direction in enumerate(directions):
        x, y = MARGIN + number * room, beginning
        sees = visible(len(tokens), direction)  # (n, n)
        whose = words.whose_sight(found, direction)
        title = words.known_way(found, direction) + (f" ({whose})" if whose else "")
        page.words(x, y, title, is_bold=True)
        y += 0.3
        place = _place_of(x, room - 0.4, tokens)
        if len(tokens) <= _MOST_IN_A_NET:
            _draw_net(page, x, y, place, sees)
            y += _NET_HEIGHT + 0.15
        lowest = max(lowest, _draw_map(page, y, place, sees.astype(np.float32), tokens, 1.6))
    page.y = lowest + 0.1


def draw_attention(page: Page, inside: Look, chosen: Chosen) -> None:
    """The chosen map with names, and a small one of every layer (down) and head (across)."""
    tokens = inside.question.tokens
    shares = inside.shares(chosen.layer, chosen.head)
    largest = float(shares.max())
    place = _place_of(MARGIN, 4.2, tokens)
    end = _draw_map(page, page.y, place, shares, tokens, largest, power=0.5)
    told = f"white is no share, the darkest {largest:.2g}"
    page.words(MARGIN, end + 0.15, told, size=8, color=PALE)
    x = place.left + place.side + 0.5
    is_beside = (WIDTH - MARGIN - x - _NAME) / inside.attention.shape[1] >= _LEAST_BESIDE
    if not is_beside:
        x, page.y = MARGIN, end + 0.5
    _draw_heads(page, x, inside.attention)
    page.y = max(page.y, end + 0.25)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the square of a map is, and how its names are written."""

    left: float
    """Inches; the names stand before it."""
    side: float
    """Inches, of the square."""
    above: float
    """Inches for the names over it; 0 where they would be too small to read."""
    size: float
    """Of the names, in points."""


def _place_of(x: float, room: float, tokens: Sequence[str]) -> Place:
    size = min(9.0, 60 * (room - _MOST_FOR_NAMES) / len(tokens))
    longest = max(width_of(token, size) for token in tokens)
    above = min(_MOST_FOR_NAMES, longest) + 0.1 if len(tokens) <= _MOST_NAMED else 0.0
    left = x + max(above, _MOST_FOR_NAMES / 2)
    side = min(room - (left - x), 0.3 * len(tokens))
    return Place(left=left, side=side, above=above, size=size)


def _draw_net(page: Page, x: float, y: float, place: Place, sees: BoolArray) -> None:
    """Nodes of the embeddings, of a layer and of the output, and a line where one sees another."""
    cell = place.side / len(sees)
    columns = [place.left + (number + 0.5) * cell for number in range(len(sees))]
    heights = [y + _NET_HEIGHT * (1 - level / 2) for level in range(len(_LEVELS))]
    ends = [
        [(columns[key], below), (columns[query], above)]
        for below, above in pairwise(heights)
        for query, key in zip(*np.nonzero(sees), strict=True)
    ]
    page.lines(ends, _LINE, 0.5)
    for (name, color), height in zip(_LEVELS, heights, strict=True):
        page.dots([(column, height) for column in columns], color, min(11.0, 45 * cell))
        page.words(x, height, name, color=PALE)


def _draw_map(
    page: Page, y: float, place: Place, values: FloatArray, tokens: Sequence[str],
    largest: float, power: float = 1.0,
) -> float:  # fmt: skip
    """A square with the tokens' names before it and above it; returns where it ends."""
    top, cell = y + place.above, place.side / len(tokens)
    for number, token in enumerate(tokens if place.above else ()):
        name = cut(token, _MOST_FOR_NAMES, place.size)
        middle = (number + 0.5) * cell
        page.words(place.left - 0.06, top + middle, name, size=place.size, align="right")
        page.words(place.left + middle, top - 0.06, name, size=place.size, turned=90)
    page.map(values, place.left, top, place.side, largest=largest, power=power)
    return top + place.side


def _draw_heads(page: Page, x: float, attention: FloatArray) -> None:
    """(L, A, n, n): each map by itself, white is no share, the darkest 1."""
    num_heads = attention.shape[1]
    page.words(x, page.y, "All layers and heads", is_bold=True)
    page.y += 0.35
    left = x + _NAME
    step = min(1.7, (WIDTH - MARGIN - left) / num_heads)
    for head in range(num_heads):
        name = f"head {head + 1}" if step > _NAME else str(head + 1)
        middle = left + (head + 0.5) * step - 0.03
        page.words(middle, page.y, name, align="center", size=8, color=PALE)
    page.y += 0.15
    for number, of_layer in enumerate(attention, start=1):
        page.words(x, page.y + step / 2, f"layer {number}", size=8, color=PALE)
        for head, shares in enumerate(of_layer):
            page.map(shares, left + head * step, page.y, step - 0.06, largest=1.0, power=0.5)
        page.y += step
    page.y += 0.1
    page.words(x, page.y, "white is no share, the darkest 1", size=8, color=PALE)
