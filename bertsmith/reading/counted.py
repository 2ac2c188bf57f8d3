"""A number and what is counted -> as a person reads it: 1 row, 2,000 rows."""

from __future__ import annotations


def counted(number: float, one: str, many: str = "") -> str:
    """The number and its noun; `many` is the plural where it is not `one` with an s."""
    told = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{told} {one if number == 1 else many or one + 's'}"
