"""One of a thing is told in the singular."""

from __future__ import annotations

import pytest

from bertsmith.reading.counted import counted


@pytest.mark.parametrize(
    ("number", "words", "told"),
    [
        (1, ("row",), "1 row"),
        (0, ("row",), "0 rows"),
        (2_000, ("row",), "2,000 rows"),
        (1, ("entity", "entities"), "1 entity"),
        (2, ("entity", "entities"), "2 entities"),
        (12_345_678, ("row",), "12,345,678 rows"),
        (1.0, ("minute",), "1 minute"),
        (4.6, ("minute",), "4.6 minutes"),
    ],
)
def test_one_is_told_in_the_singular(number: float, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
