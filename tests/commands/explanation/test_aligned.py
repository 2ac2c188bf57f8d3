"""Columns stand under one another in any script, and no line is wider than it may be."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from rich.cells import cell_len

from bertsmith.commands.explanation.aligned import (
    Row,
    bar,
    beside,
    fitted,
    grid,
    least_width,
    printable,
    prose,
    tail,
    wrapped,
)

MIXED = ["[CLS]", "피곤해", "##해", "dog", "東京", "é", "e\u0301", "🙂", "[SEP]"]


def columns_of(line: str, part: str) -> int:
    """The terminal column in which a part begins."""
    return cell_len(line[: line.index(part)])


@pytest.mark.parametrize("text", MIXED)
@pytest.mark.parametrize("width", [2, 3, 5, 12])
def test_a_text_takes_exactly_its_columns(text, width) -> None:
    assert cell_len(fitted(text, width)) == width
    assert cell_len(tail(text, width)) <= width


def test_what_is_cut_says_so() -> None:
    assert fitted("피곤해 보이네", 8).rstrip() == "피곤해…"
    assert tail("피곤해 보이네", 8) == "… 보이네"


def test_a_hangul_syllable_takes_two_columns_of_a_table() -> None:
    rows = [
        Row(name="token", cells=[(token, "") for token in MIXED]),
        Row(name="position", cells=[(f"<{number}>", "") for number in range(len(MIXED))]),
    ]
    token, position = (line.plain for line in wrapped(rows, 80))
    for number, each in enumerate(MIXED):
        assert columns_of(position, f"<{number}>") == columns_of(token, f" {each}") + 1


@pytest.mark.parametrize("width", [24, 40, 80])
def test_a_wide_table_is_wrapped_and_loses_nothing(width) -> None:
    tokens = [f"{token}{number}" for number, token in enumerate(MIXED * 4)]
    lines = wrapped([Row(name="token", cells=[(token, "") for token in tokens])], width)
    assert all(line.cell_len <= width for line in lines)
    parts = [line.plain.split() for line in lines if line.plain]
    assert {part[0] for part in parts} == {"token"}
    assert [token for part in parts for token in part[1:]] == tokens


@pytest.mark.parametrize("width", [20, 31, 40, 80])
@pytest.mark.parametrize("count", [1, 9, 10, 11, 40, 101])
def test_a_grid_has_every_cell_under_its_number_and_beside_it(count, width) -> None:
    labels = [MIXED[number % len(MIXED)] for number in range(count)]
    values = [[str((3 * row + column) % 10) for column in range(count)] for row in range(count)]
    lines = grid(labels, [[(f"{value}_", "") for value in row] for row in values], width)
    own = 2 if any("_" in line.plain for line in lines) else 1
    assert all(line.cell_len <= width for line in lines)
    digits = len(str(count - 1))
    beginning = digits + 2 + max(map(cell_len, labels))
    part = digits + count + 1  # and a blank line
    found = [""] * count
    for start in range(0, len(lines), part):
        # What stands behind the labels is one character a column.
        heads = [line.plain[beginning:] for line in lines[start : start + digits]]
        numbers = ["".join(each).strip() for each in zip_longest(*heads, fillvalue=" ")]
        first = len(found[0])
        for number, line in enumerate(lines[start + digits : start + digits + count]):
            assert line.plain.split()[0] == str(number)
            cells = line.plain[-len(line.plain.split()[-1]) :]
            assert line.cell_len - len(cells) == beginning
            found[number] += cells[::own]
        assert numbers[::own] == [str(number) for number in range(first, len(found[0]))]
    assert found == ["".join(row) for row in values]
    is_in_one_part = len(lines) < part
    assert is_in_one_part == (least_width(labels) <= width)
    assert (own == 2) == (least_width(labels) + count <= width)


def test_blocks_stand_side_by_side_where_they_fit() -> None:
    blocks = [[*prose("피곤해 보이네", 13)], [*prose("my dog is cute", 14), *prose("x", 9)]]
    together = [line.plain for line in beside(blocks, 40)]
    assert together == ["피곤해 보이네" + " " * 5 + "my dog is cute", " " * 18 + "x"]
    alone = [line.plain for line in beside(blocks, 30)]
    assert alone == ["피곤해 보이네", "", "my dog is cute", "x"]


@pytest.mark.parametrize("width", [5, 12, 30])
def test_prose_is_parted_at_blanks_and_no_wider(width) -> None:
    text = "The input is 피곤해 보이네 어제 늦게 잤니 and averyverylongword at the end"
    lines = [line.plain for line in prose(text, width)]
    assert all(cell_len(line) <= width for line in lines)
    if width == 30:
        assert " ".join(lines) == text
    assert prose("", 10)[0].plain == ""


def test_a_bar_is_as_long_as_its_share() -> None:
    assert [bar(share, 4) for share in (0.0, 0.5, 0.53125, 1.0)] == ["", "██", "██▏", "████"]
    assert bar(0.5, 4, in_ascii=True) == "=="


def test_a_terminal_is_given_no_commands() -> None:
    assert printable("a\x1b[31mb\tc\u200b") == "a\ufffd[31mb\ufffdc\ufffd"
    assert "\x1b" not in fitted("\x1b[2J", 10)
