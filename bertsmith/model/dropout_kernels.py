"""Dropout's draws in Triton, as kernels of a GPU make them: the same bits as `dropout` everywhere.

Legend: T rows of a stream; Q rows and S columns of a tile; BAR: 31-bit draws below it are dropped.
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.dropout import COLUMN_MULTIPLIER
from bertsmith.randomness import MIX32_MULTIPLIERS

_COLUMN = tl.constexpr(COLUMN_MULTIPLIER)
_FIRST, _SECOND = (tl.constexpr(multiplier) for multiplier in MIX32_MULTIPLIERS)


@triton.jit
def mixed(words):
    """The finaliser `randomness.mix32` of 32-bit words, signed or not; gives uint32."""
    words = words.to(tl.uint32, bitcast=True)
    words = (words ^ (words >> 16)) * _FIRST
    words = (words ^ (words >> 15)) * _SECOND
    return words ^ (words >> 16)


@triton.jit
def keeps(words, columns, BAR: tl.constexpr):
    """True where an element is kept: `dropout.keep_factors` of words and columns.

    Of (Q, 1) and (1, S), or of (1, Q) and (S, 1): what is given has the shape that both make. The
    first fold of the hash is of each word and each column, which comes to the same. The last one
    changes the lower half of a draw alone, by its upper one; and lower halves decide where upper
    ones are equal, so that the bound's serves.
    """
    words = words.to(tl.uint32, bitcast=True)
    columns = columns.to(tl.uint32, bitcast=True) * _COLUMN
    draws = ((words ^ (words >> 16)) ^ (columns ^ (columns >> 16))) * _FIRST
    draws = (draws ^ (draws >> 15)) * _SECOND
    return (draws ^ (2 * BAR >> 16)) >= 2 * BAR  # the plain one drops the last bit of both


@triton.jit(do_not_specialize=["num_rows", "stride", "first", "second", "third"])
def site_words(keys, words, num_rows, stride, first, second, third, ROWS: tl.constexpr):
    """(T,) row keys -> (3, stride) words of a layer's three sites, whose numbers are given."""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    is_real = rows < num_rows
    key = tl.load(keys + rows, mask=is_real, other=0)
    tl.store(words + rows, mixed(key ^ first).to(tl.int32, bitcast=True), mask=is_real)
    words += stride
    tl.store(words + rows, mixed(key ^ second).to(tl.int32, bitcast=True), mask=is_real)
    words += stride
    tl.store(words + rows, mixed(key ^ third).to(tl.int32, bitcast=True), mask=is_real)
