"""Rows by their numbers, and figures as tables show them. It knows no benchmark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
OURS = "bertsmith"


def rows_of(benchmark: str, numbers: str) -> list[Row]:
    """The rows that a table names, as in "3, 14"; a file's first line is row 1.

    Raises ValueError where there is none.
    """
    rows = _file(RESULTS / f"{benchmark}.jsonl")
    found = [int(number) for number in numbers.split(",")]
    if missing := [number for number in found if not 0 < number <= len(rows)]:
        raise ValueError(f"{benchmark}.jsonl has rows 1 to {len(rows)}, not {missing[0]}")
    return [rows[number - 1] for number in found]


@cache
def _file(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def amount(value: float) -> str:
    """With three digits or more."""
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:,.{decimals}f}"


def times(ours: float, theirs: float) -> str:
    """How many times as much ours is."""
    return f"{amount(ours / theirs)} x"


def bold(cell: str) -> str:
    """As what is ours stands in a table."""
    return f"**{cell}**" if cell else ""


def line(cells: Iterable[str]) -> str:
    """A line of a table."""
    return "| " + " | ".join(cells) + " |"
