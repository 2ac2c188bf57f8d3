"""An explanation -> lines for a terminal: the paper's Figures 1 to 3 of a person's own words.

Whatever colour says, characters say too. It does not know the model, and draws no pictures.

Source: Devlin et al. 2018, Figures 1 to 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.text import Text

from bertsmith.commands.explanation import words
from bertsmith.commands.explanation.aligned import (
    Cell,
    Row,
    bar,
    beside,
    fitted,
    grid,
    least_width,
    prose,
    shortened,
    tail,
    wrapped,
)

if TYPE_CHECKING:
    from bertsmith.commands.explanation.words import Chosen
    from bertsmith.tasks.explanation import Explanation, Guess, OneSided
    from bertsmith.tasks.hidden_places import Fate

FloatArray = npt.NDArray[np.float32]

_SEGMENTS = (("A", "green"), ("B", "magenta"))
_FATE_STYLES: dict[Fate, str] = {"mask": "bold red", "random": "bold yellow", "kept": "bold cyan"}
_RIGHT_STYLE = "bold green"
_LEAST_WIDTH = 40
_TOKEN_WIDTH, _BAR_WIDTH, _GAP = 14, 8, 4
_MOST_IN_A_GRID = 64
"""Tokens; of more a map in a terminal is no picture any more."""


@dataclass(frozen=True, kw_only=True)
class Signs:
    """The characters that draw."""

    shades: str
    """From no share to the largest one."""
    right: str
    """Marks what stands there."""
    visible: str
    """May be looked at."""
    hidden: str
    """May not."""
    is_ascii: bool
    """Whether the terminal has no others."""


_SIGNS = Signs(shades=" ░▒▓█", right="✓", visible="■", hidden="·", is_ascii=False)
_ASCII_SIGNS = Signs(shades=" .:+#", right=">", visible="#", hidden=".", is_ascii=True)


def show(found: Explanation, chosen: Chosen, console: Console) -> None:
    """Prints it all, as wide as the terminal is."""
    is_utf8 = console.encoding.lower().replace("-", "").startswith("utf8")
    width = max(_LEAST_WIDTH, console.width)
    for line in lines(found, chosen, width, _SIGNS if is_utf8 else _ASCII_SIGNS):
        console.print(line)


def lines(found: Explanation, chosen: Chosen, width: int, signs: Signs = _SIGNS) -> Iterator[Text]:
    """All lines, each of at most `width` columns."""
    yield from prose(words.heading(found, chosen), width, "bold")
    yield from _titled(words.input_title(found), words.INPUT_LINE, width)
    yield from _input(found, width)
    if words.shows_places(found):
        yield from _titled(words.hidden_title(found), words.hidden_line(found), width)
        yield from _hidden(found, width, signs)
    if found.follows is not None:
        yield from _titled(words.NEXT_TITLE, words.NEXT_LINE, width)
        yield from _follows(found.follows, width, signs)
    yield from _titled(words.SIGHT_TITLE, words.sight_line(found), width)
    yield from _sight(found, width, signs)
    if found.one_sided:
        yield from _titled(words.ONE_SIDED_TITLE, words.one_sided_line(found), width)
        yield from _one_sided(found, width, signs)
    if found.inside is not None:
        yield from _titled(words.attention_title(found, chosen), words.ATTENTION_LINE, width)
        shares = found.inside.shares(chosen.layer, chosen.head)
        yield from _attention(found.hidden.question.tokens, shares, width, signs)


def _titled(title: str, line: str, width: int) -> Iterator[Text]:
    yield Text()
    yield from prose(title, width, "bold")
    yield from prose(line, width)
    yield Text()


def _input(found: Explanation, width: int) -> list[Text]:
    question = found.hidden.question
    segments = [_SEGMENTS[number] for number in question.item.segment_ids.tolist()]
    return wrapped(
        [
            Row(name="token", cells=[(token, "bold") for token in question.tokens]),
            Row(name="segment", cells=segments),
            Row(name="position", cells=[(str(row), "") for row in range(len(segments))]),
        ],
        width,
    )


def _hidden(found: Explanation, width: int, signs: Signs) -> Iterator[Text]:
    places = {place.row: place for place in found.hidden.places}
    if found.config.direction == "bidirectional":
        styles = {row: _FATE_STYLES[place.fate] for row, place in places.items()}
        seen = [(token, styles.get(row, "")) for row, token in enumerate(found.seen)]
        fates = [
            (words.FATES[places[row].fate], styles[row]) if row in places else ("", "")
            for row in range(len(seen))
        ]
        original = [(token, "") for token in found.hidden.question.tokens]
        yield from wrapped(
            [
                Row(name="token", cells=original),
                Row(name="it reads", cells=seen),
                Row(name="fate", cells=fates),
            ],
            width,
        )
        yield from [Text()] if found.guesses else []
    if found.guesses:
        blocks = [
            [_name(words.place_title(found, place), width), *_guess(guess, signs)]
            for place, guess in zip(found.hidden.places, found.guesses, strict=True)
        ]
        yield from beside(blocks, width)


def _guess(guess: Guess, signs: Signs) -> Iterator[Text]:
    """The candidates, likeliest first, and what stands there if it is none of them."""
    for each in words.shown(guess):
        is_right = guess.right is not None and each.token_id == guess.right.token_id
        drawn = bar(each.probability, _BAR_WIDTH, in_ascii=signs.is_ascii)
        note = words.rank_of(guess) if is_right else ""
        yield Text(
            f"{signs.right if is_right else ' '} {fitted(each.token, _TOKEN_WIDTH)}"
            f"{words.percent(each.probability):>8}  {f'{drawn} {note}'.strip()}",
            style=_RIGHT_STYLE if is_right else "",
        )


def _name(text: str, width: int) -> Text:
    """Of a place, in one line."""
    return Text(shortened(text, width), style="bold")


def _follows(probability: float, width: int, signs: Signs) -> Iterator[Text]:
    longest = min(4 * _BAR_WIDTH, width - 20)
    for name, share in (("IsNext", probability), ("NotNext", 1.0 - probability)):
        drawn = bar(share, longest, in_ascii=signs.is_ascii)
        style = _RIGHT_STYLE if share > 0.5 else ""
        yield Text(f"  {name:<8}{words.percent(share):>8}  {drawn}", style=style)


def _sight(found: Explanation, width: int, signs: Signs) -> Iterator[Text]:
    # It imports torch, as whoever made the explanation has: a command line need not.
    from bertsmith.tasks.explanation import visible

    tokens = found.hidden.question.tokens
    if len(tokens) > _MOST_IN_A_GRID:
        yield from prose(_too_long(len(tokens)), width)
        return
    marks: tuple[Cell, Cell] = ((signs.hidden, "dim"), (signs.visible, "blue"))
    blocks, directions = [], words.shown_directions(found)
    abreast = (width - _GAP * (len(directions) - 1)) // len(directions)
    own_width = abreast if least_width(tokens) <= abreast else width
    for direction in directions:
        sees = visible(len(tokens), direction).tolist()
        cells = [[marks[each] for each in row] for row in sees]
        title = Text(words.known_way(found, direction), style="bold")
        whose = Text(words.whose_sight(found, direction), style="green")
        blocks.append([title, whose, *grid(tokens, cells, own_width)])
    yield from beside(blocks, width, _GAP)


def _one_sided(found: Explanation, width: int, signs: Signs) -> Iterator[Text]:
    last = len(found.seen) - 2
    for number, (place, each) in enumerate(zip(found.hidden.places, found.one_sided, strict=True)):
        if number:
            yield Text()
        token = found.hidden.question.tokens[place.row]
        yield _name(f"{place.row} {token}", width)
        if place.row == last:
            yield from prose(words.NOTHING_BEHIND, width)
        else:
            yield from _sides(each, width, signs)


def _sides(each: OneSided, width: int, signs: Signs) -> Iterator[Text]:
    yield Text(f"  left alone: {tail(' '.join(each.left_tokens), width - 14)}", style="dim")
    yield from beside(
        [
            [Text("  both sides", style="underline"), *_guess(each.both, signs)],
            [Text("  left alone", style="underline"), *_guess(each.left, signs)],
        ],
        width,
    )


def _attention(
    tokens: Sequence[str], shares: FloatArray, width: int, signs: Signs
) -> Iterator[Text]:
    if len(tokens) > _MOST_IN_A_GRID:
        yield from prose(_too_long(len(tokens)), width)
        return
    largest = float(shares.max())
    yield from grid(tokens, _shaded(shares, largest, signs.shades), width)
    steps = len(signs.shades) - 1
    borders = [largest * (step / steps) ** 2 for step in range(steps + 1)]
    legend = ",  ".join(
        f"{shade * 2} up to {border:.2g}"
        for shade, border in zip(signs.shades[1:], borders[1:], strict=True)
    )
    yield Text()
    yield from prose(legend, width, "dim")


def _shaded(shares: FloatArray, largest: float, shades: str) -> Sequence[Sequence[Cell]]:
    """A cell is as dark as the root of its share of the largest one; no share at all is blank."""
    levels = np.ceil(np.sqrt(shares / largest) * (len(shades) - 1)).astype(int)
    return [[(shades[level] * 2, "blue") for level in row] for row in levels.tolist()]


def _too_long(num_tokens: int) -> str:
    return (
        f"{num_tokens:,} tokens are too many to draw here ({_MOST_IN_A_GRID} at most): --out "
        f"FILE.svg draws them."
    )
