"""What attention's kernels in Triton have in common: tiles, scores and dropout's draws.

Places are given as they broadcast: queries (Q, 1) and keys (1, S), or the other way round.

Legend: T rows of the packed stream, N sequences, H hidden size; HEAD = K; SPAN = K rounded up to a
power of two; tiles of queries Q and of keys S; BAR: 31-bit draws below it are dropped.
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.dropout import HEAD_BITS
from bertsmith.model.dropout_kernels import keeps

_HEAD_BITS = tl.constexpr(HEAD_BITS)
_LOG2_E = tl.constexpr(1.4426950408889634)
LEFT_TO_RIGHT, RIGHT_TO_LEFT = tl.constexpr(1), tl.constexpr(2)


@triton.jit
def sequence(first_rows, last_rows):
    """Where this program's sequence starts in the stream, int64, and its length, int32."""
    start = tl.load(first_rows + tl.program_id(0))
    return start, (tl.load(last_rows + tl.program_id(0)) + 1 - start).to(tl.int32)


@triton.jit
def keeps_weight(words, keys, head, BAR: tl.constexpr):
    """True where a probability is kept, by the queries' words; its columns are (head, key)."""
    return keeps(words, (head << _HEAD_BITS) | keys, BAR)


@triton.jit
def scores_of(
    left,
    right,
    queries,
    keys,
    length,
    scale,
    DIRECTION: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Products of two tiles' rows in units of log 2; of keys that are not seen minus infinity.

    A query beyond the sequence's end sees what its place would: nothing is kept of it.
    """
    # Added in the instruction that scales; a tile of truth values would take several for each.
    unseen = tl.where(keys < length, 0.0, -float("inf"))
    found = tl.dot(left, tl.trans(right), input_precision=PRECISION) * (scale * _LOG2_E) + unseen
    if DIRECTION == LEFT_TO_RIGHT:
        found = tl.where(keys <= queries, found, -float("inf"))
    if DIRECTION == RIGHT_TO_LEFT:
        found = tl.where(keys >= queries, found, -float("inf"))
    return found


@triton.jit
def tile(matrix, start, places, length, stride, column, HEAD: tl.constexpr, SPAN: tl.constexpr):
    """Rows of one sequence, columns of one head, (places, SPAN); zero beyond either's end."""
    columns = tl.arange(0, SPAN)
    cells = places[:, None] * stride + columns[None, :]
    is_real = (places < length)[:, None] & (columns < HEAD)[None, :]
    return tl.load(matrix + start * stride + column + cells, mask=is_real, other=0.0)


@triton.jit
def put(
    matrix, rows, start, places, length, stride, column, HEAD: tl.constexpr, SPAN: tl.constexpr
):
    """Writes what `tile` reads."""
    columns = tl.arange(0, SPAN)
    cells = places[:, None] * stride + columns[None, :]
    is_real = (places < length)[:, None] & (columns < HEAD)[None, :]
    tl.store(
        matrix + start * stride + column + cells, rows.to(matrix.dtype.element_ty), mask=is_real
    )


@triton.jit
def put_sum(sums, total, width, column, HEAD: tl.constexpr, SPAN: tl.constexpr):
    """The (SPAN,) sum of a tile's rows, to this program's place in (N * tiles, 3H)."""
    columns = tl.arange(0, SPAN)
    row = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    tl.store(sums + row * 3 * width + column + columns, total, mask=columns < HEAD)
