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
    ],
)
def test_one_is_told_in_the_singular(number: int, words: tuple[str, ...], told: str) -> None:
    assert counted(number, *words) == told
