"""Lengths and a mark among 64 of them: where each begins, as a plain walk finds it."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.corpus.spans import Spans
from bertsmith.randomness import integers


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000])
@pytest.mark.parametrize("longest", [1, 255, 256, 65_535, 65_536])
def test_starts_and_edges_are_those_of_a_walk(count: int, longest: int) -> None:
    lengths = 1 + integers(longest, 7, np.arange(count))
    lengths[-1] = longest
    spans = Spans.of(lengths)
    walked = [0]
    for length in lengths.tolist():
        walked.append(walked[-1] + length)
    assert spans.edges().tolist() == walked
    asked = np.arange(count)[::-1]
    assert spans.starts(asked).tolist() == walked[:-1][::-1]
    assert spans.lengths.dtype == (
        np.uint8 if longest < 256 else np.uint16 if longest < 65_536 else np.uint32
    )


def test_a_window_has_nothing_at_and_past_its_end() -> None:
    spans = Spans.of(np.array([3, 1, 4, 1, 5]))
    window = spans.window(np.array([0, 3, 4]), np.array([2, 5, 5]), 3)
    assert window.tolist() == [[3, 1, 0], [1, 5, 0], [5, 0, 0]]
