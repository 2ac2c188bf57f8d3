"""Things laid end to end, kept as their lengths: where does any one of them begin?

Beside the lengths stands where every 64th begins, so that any one is found from the mark before it,
as fast at the far end as at the start; starts themselves would take four times the space. It does
not know what the things are.

Legend: N things, n of them asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray, starts_of

THINGS_A_MARK = 64

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Spans:
    """N things laid end to end: sentences of tokens, or documents of sentences."""

    lengths: IntArray
    """(N,) at least 1, in the narrowest unsigned type."""
    marks: IntArray
    """(ceil(N / 64),) uint32: where things 0, 64, 128, ... begin."""

    @staticmethod
    def of(lengths: IntArray) -> Spans:
        """In the types that they have on disk; the sum of the lengths is below 2**32."""
        longest = lengths.max() if len(lengths) else 0
        return Spans(
            lengths=lengths.astype(np.min_scalar_type(longest)),
            marks=starts_of(lengths)[::THINGS_A_MARK].astype(np.uint32),
        )

    def edges(self) -> Int64Array:
        """(N + 1,) where each begins, and where the last one ends: all are walked through."""
        edges = np.zeros(len(self.lengths) + 1, dtype=np.int64)
        np.cumsum(self.lengths, out=edges[1:])
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
        lengths = self.lengths[np.minimum(columns, len(self.lengths) - 1)]
        return np.where(columns < ends[:, None], lengths.astype(np.int64), 0)
