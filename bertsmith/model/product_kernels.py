"""A matrix product in Triton with GELU behind it, and one with GELU's slope, for Hopper GPUs.

Tiles come and go by descriptors of whole matrices: what a tile has beyond the last row is read as
zero and not written. Sums of a tile are in float32; each row tile leaves its own, in one order, so
every run gives the same bits. Row tiles go GROUP by GROUP through all columns, so that what they
share is still in the cache.

Legend: R rows; HIDDEN, H; WIDTH, F; ROWS and COLUMNS of a tile of results, and DEPTH of H that is
multiplied at once; P row tiles.
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.gelu_kernels import share_and_density


@triton.jit
def _place(tile, num_row_tiles, COLUMN_TILES: tl.constexpr, GROUP: tl.constexpr):
    """The row and the column of tiles that a number stands for."""
    first = tile // (GROUP * COLUMN_TILES) * GROUP
    size = tl.minimum(num_row_tiles - first, GROUP)
    within = tile % (GROUP * COLUMN_TILES)
    return first + within % size, within // size


@triton.jit
def _put_with_gelu(sums, bias, inner, active, row, column, COLUMNS: tl.constexpr):
    """Sums and bias, and GELU of what they were rounded to, as the way back sees them."""
    sums += tl.load(bias + column + tl.arange(0, COLUMNS)).to(tl.float32)[None, :]
    rounded = sums.to(inner.dtype)
    inner.store([row, column], rounded)
    value = rounded.to(tl.float32)
    share, _ = share_and_density(value)
    active.store([row, column], (value * share).to(active.dtype))


@triton.jit(do_not_specialize=["num_rows"])
def up_and_gelu(
    states, weight, bias, inner, active, num_rows,
    HIDDEN: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """(R, H) `states` @ (F, H) `weight`.T + (F,) `bias` -> `inner`, and its GELU, (R, F) both.

    Programs share the tiles: while one's results leave, its next factors come. They leave in
    halves of a tile, which take half of the room.
    """
    num_row_tiles = tl.cdiv(num_rows, ROWS)
    HALF: tl.constexpr = COLUMNS // 2
    num_tiles = num_row_tiles * (WIDTH // COLUMNS)
    for tile in tl.range(tl.program_id(0), num_tiles, tl.num_programs(0), flatten=True):
        row_tile, column_tile = _place(tile, num_row_tiles, WIDTH // COLUMNS, GROUP)
        row, column = row_tile * ROWS, column_tile * COLUMNS
        sums = tl.zeros([ROWS, COLUMNS], tl.float32)
        for step in range(HIDDEN // DEPTH):
            left = states.load([row, step * DEPTH])  # (ROWS, DEPTH)
            right = weight.load([column, step * DEPTH])  # (COLUMNS, DEPTH)
            sums = tl.dot(left, right.T, sums)
        halves = tl.permute(tl.reshape(sums, [ROWS, 2, HALF]), [0, 2, 1])  # (ROWS, HALF, 2)
        first, last = tl.split(halves)
        _put_with_gelu(first, bias, inner, active, row, column, HALF)
        _put_with_gelu(last, bias, inner, active, row, column + HALF, HALF)


@triton.jit(do_not_specialize=["num_rows"])
def down_backward(
    gradient, weight, inner, grad_inner, totals, num_rows,
    HIDDEN: tl.constexpr, WIDTH: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """(R, H) `gradient` @ (H, F) `weight`, times GELU's slopes at (R, F) `inner` -> `grad_inner`.

    And each row tile's sums over its rows, unrounded, (P, F) float32 `totals`. A program is a tile.
    """
    num_row_tiles = tl.cdiv(num_rows, ROWS)
    row_tile, column_tile = _place(tl.program_id(0), num_row_tiles, WIDTH // COLUMNS, GROUP)
    row, column = row_tile * ROWS, column_tile * COLUMNS
    sums = tl.zeros([ROWS, COLUMNS], tl.float32)
    for step in range(HIDDEN // DEPTH):
        left = gradient.load([row, step * DEPTH])  # (ROWS, DEPTH)
        right = weight.load([step * DEPTH, column])  # (DEPTH, COLUMNS)
        sums = tl.dot(left, right, sums)
    value = inner.load([row, column]).to(tl.float32)
    share, density = share_and_density(value)
    sums *= share + value * density  # of rows that are not there zero, whatever the slope
    cells = row_tile.to(tl.int64) * WIDTH + column + tl.arange(0, COLUMNS)
    tl.store(totals + cells, tl.sum(sums, 0))
    # Last: what a tile is laid out anew for takes registers, and with sums behind it they spill.
    grad_inner.store([row, column], sums.to(grad_inner.dtype))
