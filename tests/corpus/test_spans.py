"""Lengths in bytes or halves of them and a mark among 64: each is found as a walk finds it."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.corpus.spans import Spans
from bertsmith.randomness import integers


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 1000])
@pytest.mark.parametrize("longest", [1, 15, 16, 255, 256, 65_535, 65_536])
@pytest.mark.parametrize("usual", [None, 9, 200])
def test_starts_and_edges_are_those_of_a_walk(count: int, longest: int, usual: int | None) -> None:
    """Whatever the lengths are: all alike, or usually short with one that fits no place."""
    lengths = 1 + integers(min(longest, usual or longest), 7, np.arange(count))
    lengths[count // 2] = longest
    spans = Spans.of(lengths)
    walked = [0]
    for length in lengths.tolist():
        walked.append(walked[-1] + length)
    assert spans.edges().tolist() == walked
    asked = np.arange(count)[::-1]
    assert spans.starts(asked).tolist() == walked[:-1][::-1]
    assert spans.all_lengths().tolist() == lengths.tolist()
    assert spans.lengths(asked.reshape(1, -1)).tolist() == [lengths[::-1].tolist()]
    stored = (spans.short, spans.long, spans.marks)
    assert [part.dtype for part in stored] == [np.uint8, np.uint32, np.uint32]


@pytest.mark.parametrize(
    ("lengths", "size"),
    [
        ([15] * 1000, 500),  # each in half a byte
        ([15] * 999, 500),
        ([15] * 1000 + [300] * 3, 502 + 3 * 8),  # and three in the list
        ([16] * 1000, 1000),  # each in a byte
        ([16] * 1000 + [300] * 3, 1003 + 3 * 8),
    ],
)
def test_lengths_lie_where_they_take_least(lengths: list[int], size: int) -> None:
    spans = Spans.of(np.array(lengths))
    assert spans.short.nbytes + spans.long.nbytes == size
    assert spans.all_lengths().tolist() == lengths


def test_a_window_has_nothing_at_and_past_its_end() -> None:
    spans = Spans.of(np.array([3, 1, 4, 1, 5]))
    window = spans.window(np.array([0, 3, 4]), np.array([2, 5, 5]), 3)
    assert window.tolist() == [[3, 1, 0], [1, 5, 0], [5, 0, 0]]
