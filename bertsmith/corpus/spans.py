"""Things laid end to end, kept as their lengths: where does any one of them begin?

A length takes one byte, or half of one where that is less in all; the few that do not fit stand in
a list with their numbers. Beside the lengths stands where every 64th thing begins, so that any one
is found from the mark before it, as fast at the far end as at the start; starts themselves would
take four to eight times the space. It does not know what the things are.

Legend: N things, L of them too long for their place, n asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray, starts_of

THINGS_A_MARK = 64

Int64Array = npt.NDArray[np.int64]
UInt8Array = npt.NDArray[np.uint8]

_HALF = 4
"""Bits."""


@dataclass(frozen=True, kw_only=True)
class Spans:
    """N things laid end to end: sentences of tokens, or documents of sentences."""

    count: int
    """N."""
    short: IntArray
    """(N,) uint8 lengths, or (ceil(N / 2),) of two each, the first in the low half; 0: see long."""
    long: IntArray
    """(2, L) uint32: the numbers, ascending, of the things that do not fit, and their lengths."""
    marks: IntArray
    """(ceil(N / 64),) uint32: where things 0, 64, 128, ... begin."""

    @staticmethod
    def of(lengths: IntArray) -> Spans:
        """In the types that they have on disk; lengths are at least 1, their sum below 2**32."""
        halves, bytes_ = _fitted(lengths, _HALF), _fitted(lengths, 8)
        short, long = min(bytes_, halves, key=lambda fitted: sum(part.nbytes for part in fitted))
        marks = starts_of(lengths)[::THINGS_A_MARK].astype(np.uint32)
        return Spans(count=len(lengths), short=short, long=long, marks=marks)

    def lengths(self, numbers: Int64Array) -> Int64Array:
        """The lengths of these things, in any shape."""
        if len(self.short) == self.count:
            lengths = self.short[numbers].astype(np.int64)
        else:
            pairs = self.short[numbers >> 1].astype(np.int64)
            lengths = pairs >> ((numbers & 1) * _HALF) & ((1 << _HALF) - 1)
        is_long = lengths == 0
        if is_long.any():
            asked = numbers[is_long].astype(self.long.dtype)  # of another type the list is copied
            lengths[is_long] = self.long[1, np.searchsorted(self.long[0], asked)]
        return lengths

    def all_lengths(self) -> Int64Array:
        """(N,) of every thing, in order: all are walked through."""
        return self.lengths(np.arange(self.count))

    def edges(self) -> Int64Array:
        """(N + 1,) where each begins, and where the last one ends: all are walked through."""
        edges = np.zeros(self.count + 1, dtype=np.int64)
        np.cumsum(self.all_lengths(), out=edges[1:])
        return edges

    def starts(self, numbers: Int64Array) -> Int64Array:
        """(n,) where each of these begins."""
        marks = numbers // THINGS_A_MARK
        way = self.window(marks * THINGS_A_MARK, numbers, THINGS_A_MARK)
        starts: Int64Array = self.marks[marks].astype(np.int64) + way.sum(axis=1)
        return starts

    def window(self, firsts: Int64Array, ends: Int64Array, width: int) -> Int64Array:
        """(n, width) lengths from each first on, 0 at and past its end."""
        columns = firsts[:, None] + np.arange(width)
        lengths = self.lengths(np.minimum(columns, self.count - 1))
        return np.where(columns < ends[:, None], lengths, 0)


def _fitted(lengths: IntArray, bits: int) -> tuple[UInt8Array, IntArray]:
    """`short` and `long` with this many bits, 4 or 8, for a length."""
    fits = lengths < 1 << bits
    short = np.where(fits, lengths, 0).astype(np.uint8)
    if bits == _HALF:
        even = np.pad(short, (0, len(short) % 2))
        short = (even[::2] | even[1::2] << _HALF).astype(np.uint8)
    numbers = np.flatnonzero(~fits)
    return short, np.stack([numbers, lengths[numbers]]).astype(np.uint32)
