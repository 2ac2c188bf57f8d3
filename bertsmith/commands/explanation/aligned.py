"""Cells of text in any script -> lines of a terminal in which they stand under one another.

A Hangul syllable or an ideograph takes two columns of a terminal, a combining mark none: everything
here counts columns and no characters. It does not know what the cells say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len, set_cell_size
from rich.text import Text

Cell = tuple[str, str]
"""A text and its style."""

_GAP = 2
_WIDEST_LABEL = 12
_PARTS = " ▏▎▍▌▋▊▉█"
_BAR_IN_ASCII = "="


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of a table that is wider than the terminal may be."""

    name: str
    """Repeated wherever the table is wrapped."""
    cells: Sequence[Cell]
    """One for each column."""


def printable(text: str) -> str:
    """The text without characters that a terminal would obey."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def fitted(text: str, width: int) -> str:
    """Exactly `width` columns of it: filled up with blanks, or cut and ended by `…`."""
    text = printable(text)
    if cell_len(text) > width:
        text = set_cell_size(text, width - 1).rstrip() + "…"
    return set_cell_size(text, width)


def shortened(text: str, width: int) -> str:
    """At most `width` columns of it, ended by `…` where it is cut."""
    return fitted(text, min(width, cell_len(printable(text))))


def tail(text: str, width: int) -> str:
    """The end of a text, at most `width` columns of it."""
    text = printable(text)
    while cell_len(text) > width:
        text = "…" + text.removeprefix("…")[1:]
    return text


def prose(text: str, width: int, style: str = "") -> list[Text]:
    """Words in lines of at most `width` columns; a longer word has a line of its own, cut."""
    lines = [""]
    for word in printable(text).split():
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines = [*filter(None, lines), shortened(word, width)]
    return [Text(line, style=style) for line in lines]


def wrapped(rows: Sequence[Row], width: int) -> list[Text]:
    """The rows under one another, each column as wide as it must be, in parts that fit."""
    name_width = max(cell_len(row.name) for row in rows) + _GAP
    room = width - name_width
    columns = list(zip(*(row.cells for row in rows), strict=True))
    widths = [min(room, max(cell_len(printable(text)) for text, _ in each)) for each in columns]
    lines: list[Text] = []
    for start, end in _parts(widths, room):
        lines += [Text()] if lines else []
        for row in rows:
            line = Text(set_cell_size(row.name, name_width), style="dim")
            for (text, style), own in zip(row.cells[start:end], widths[start:end], strict=True):
                line.append(fitted(text, own), style=f"not dim {style}".strip())
                line.append(" " * _GAP)
            lines.append(_without_end(line))
    return lines


def grid(labels: Sequence[str], cells: Sequence[Sequence[Cell]], width: int) -> list[Text]:
    """A row a label, a column a number; two columns of the terminal each, or one, or in parts.

    Rows and columns are counted from 0; the digits of a column's number stand under one another.
    """
    digits, label_width = len(str(len(labels) - 1)), _label_width(labels)
    beginning = digits + label_width + 2
    own = 2 if beginning + 2 * len(cells[0]) <= width else 1
    num_columns = max(1, (width - beginning) // own)
    lines: list[Text] = []
    for start in range(0, len(cells[0]), num_columns):
        end = min(start + num_columns, len(cells[0]))
        lines += [Text()] if lines else []
        for place in range(digits):
            heads = (str(number).rjust(digits)[place].ljust(own) for number in range(start, end))
            lines.append(Text(" " * beginning + "".join(heads).rstrip(), style="dim"))
        for number, (label, row) in enumerate(zip(labels, cells, strict=True)):
            line = Text(f"{number:>{digits}} {fitted(label, label_width)} ")
            for text, style in row[start:end]:
                line.append(set_cell_size(text, own), style=style)
            lines.append(_without_end(line))
    return lines


def least_width(labels: Sequence[str]) -> int:
    """Of a grid in one part."""
    return len(str(len(labels) - 1)) + _label_width(labels) + 2 + len(labels)


def _label_width(labels: Sequence[str]) -> int:
    return min(_WIDEST_LABEL, max(cell_len(printable(label)) for label in labels))


def beside(blocks: Sequence[Sequence[Text]], width: int, gap: int = 4) -> list[Text]:
    """The blocks side by side, as many in a row as fit, a blank line between the rows."""
    lines: list[Text] = []
    widest = max((line.cell_len for block in blocks for line in block), default=0)
    abreast = max(1, (width + gap) // (widest + gap))
    for start in range(0, len(blocks), abreast):
        lines += [Text()] if lines else []
        for of_one in zip_longest(*blocks[start : start + abreast], fillvalue=Text()):
            line = Text()
            for each in of_one:
                line.append_text(each)
                line.append(" " * (widest + gap - each.cell_len))
            lines.append(_without_end(line))
    return lines


def bar(share: float, width: int, *, in_ascii: bool = False) -> str:
    """A bar of `share` of the width, in eighths of a column."""
    if in_ascii:
        return _BAR_IN_ASCII * round(share * width)
    eighths = round(share * width * 8)
    return _PARTS[8] * (eighths // 8) + _PARTS[eighths % 8].strip()


def _parts(widths: Sequence[int], room: int) -> list[tuple[int, int]]:
    """Runs of columns that fit the room, each half-open."""
    edges, used = [0], 0
    for place, width in enumerate(widths):
        if used + width > room and used:
            edges.append(place)
            used = 0
        used += width + _GAP
    return list(zip(edges, [*edges[1:], len(widths)], strict=True))


def _without_end(line: Text) -> Text:
    """Without blanks behind it."""
    line.rstrip()
    return line
