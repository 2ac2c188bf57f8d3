"""The tokens of a text -> windows that a model can read, and which tokens' vectors each one gives.

A token's vector is taken from the window where it sees most of its surroundings. Windows start a
fixed step apart: the step is what `doc_stride` means in the original, and not the overlap, as
`stride` does elsewhere. What is not read is counted. It knows no model.

Source: google-research/bert, run_squad.py: convert_examples_to_features (doc_spans),
_check_is_max_context.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray
from bertsmith.data.items import Item, one_text
from bertsmith.text.rules import NUM_SPECIAL


@dataclass(frozen=True, kw_only=True)
class Window:
    """A run of a text's tokens, read together, and those of them whose vectors are kept."""

    start: int
    """First token read; the text's special tokens are not counted."""
    end: int
    """Past the last token read."""
    kept_start: int
    """First token whose vector is taken from this window."""
    kept_end: int
    """Past the last one."""
    is_first: bool
    """Whether `[CLS]` is taken from this window."""
    is_last: bool
    """Whether `[SEP]` is taken from this window."""

    @property
    def kept_rows(self) -> tuple[int, int]:
        """The rows kept of this window's `[CLS] ... [SEP]`, half-open.

        Those of all windows, end to end, are `[CLS]`, every token once, and `[SEP]`.
        """
        first = 0 if self.is_first else self.kept_start - self.start + 1
        return first, self.kept_end - self.start + (2 if self.is_last else 1)

    @property
    def num_kept(self) -> int:
        """How many rows these are."""
        start, end = self.kept_rows
        return end - start

    def item(self, ids: IntArray, cls_id: int, sep_id: int) -> Item:
        """The model's input, of the ids of the whole text."""
        read = ids[self.start : self.end]
        limit = len(read) + NUM_SPECIAL
        return one_text(read, limit=limit, cls_id=cls_id, sep_id=sep_id, keep=(0, 0))


def windows_of(num_tokens: int, capacity: int, step: int | None) -> list[Window]:
    """Windows of at most `capacity` tokens, every `step`; the first one alone where that is None.

    A text that fits, an empty one too, is one window. Each window keeps at least one token of a
    text that has some.
    """
    ranges = [(0, min(num_tokens, capacity))]
    while step is not None and ranges[-1][1] < num_tokens:
        start = ranges[-1][0] + step
        ranges.append((start, min(num_tokens, start + capacity)))
    borders = [0, *(_handover(*pair) for pair in pairwise(ranges)), ranges[-1][1]]
    return [
        Window(
            start=start,
            end=end,
            kept_start=kept_start,
            kept_end=kept_end,
            is_first=number == 0,
            is_last=number == len(ranges) - 1,
        )
        for number, ((start, end), (kept_start, kept_end)) in enumerate(
            zip(ranges, pairwise(borders), strict=True)
        )
    ]


def rows_before(windows: Sequence[Window]) -> list[int]:
    """For each window of a text, how many rows are kept of those before it."""
    return [0, *accumulate(window.num_kept for window in windows[:-1])]


def kept_rows(windows: Sequence[Window], starts: IntArray) -> IntArray:
    """The stream rows kept of each window's sequence, end to end; `starts` are its first rows."""
    kept = [window.kept_rows for window in windows]
    return np.concatenate(
        [start + np.arange(*rows) for start, rows in zip(starts, kept, strict=True)]
    )


def _handover(first: tuple[int, int], second: tuple[int, int]) -> int:
    """The token from which on the second window has more context than the first.

    There is one such token: where both windows read, the second one's lead only grows to the right.
    """
    shared = np.arange(second[0], first[1])
    second_is_better = _context(shared, *second) > _context(shared, *first)
    return second[0] + (int(second_is_better.argmax()) if second_is_better.any() else len(shared))


def _context(tokens: IntArray, start: int, end: int) -> npt.NDArray[np.float64]:
    """Tokens on the poorer side, and a hundredth of the window's length; equals go to the first."""
    return np.minimum(tokens - start, end - 1 - tokens) + 0.01 * (end - start)
