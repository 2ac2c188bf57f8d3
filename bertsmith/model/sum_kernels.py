"""Sums over rows in Triton: of what programs left, and of embeddings' gradients by place.

Each number is summed by one program in a fixed order, so every run gives the same bits.

Legend: P rows of sums, WIDTH columns; T tokens, N sequences, L tokens of the longest; ROWS or
SEQUENCES, and COLUMNS, of a tile.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["num_rows", "width"])
def sum_rows(rows, found, num_rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """(K, P, WIDTH) float32 -> their sums (K, WIDTH). A program is (columns, which of the K)."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = (columns < width)[None, :]
    rows += tl.program_id(1).to(tl.int64) * num_rows * width
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(0, num_rows, ROWS):
        places = first + tl.arange(0, ROWS)
        cells = places.to(tl.int64)[:, None] * width + columns[None, :]
        total += tl.load(rows + cells, mask=(places < num_rows)[:, None] & is_column, other=0.0)
    at = found + tl.program_id(1) * width + columns
    tl.store(at, tl.sum(total, 0).to(found.dtype.element_ty), mask=columns < width)


@triton.jit(do_not_specialize=["num_sequences", "num_segments"])
def sum_by_place(
    rows,
    first_rows,
    last_rows,
    segment_ids,
    of_places,
    of_segments,
    num_sequences,
    num_segments,
    WIDTH: tl.constexpr,
    SEQUENCES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """(T, WIDTH) float32 -> sums of each place in its sequence, (L, WIDTH).

    And of each place's tokens of the first and of the second segment, (2, L, WIDTH) float32; what
    is beyond the last of at most two segments counts as of the last. A program is (columns, place).
    """
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < WIDTH
    place, num_places = tl.program_id(1), tl.num_programs(1)
    first = tl.zeros([SEQUENCES, COLUMNS], tl.float32)
    second = tl.zeros([SEQUENCES, COLUMNS], tl.float32)
    for start in range(0, num_sequences, SEQUENCES):
        numbers = start + tl.arange(0, SEQUENCES)
        is_sequence = numbers < num_sequences
        row = tl.load(first_rows + numbers, mask=is_sequence, other=0) + place
        is_there = row <= tl.load(last_rows + numbers, mask=is_sequence, other=-1)
        segment = tl.load(segment_ids + row, mask=is_there, other=0)
        is_second = ((segment > 0) & (num_segments > 1))[:, None]
        cells = row[:, None] * WIDTH + columns[None, :]
        value = tl.load(rows + cells, mask=is_there[:, None] & is_column[None, :], other=0.0)
        first += tl.where(is_second, 0.0, value)
        second += tl.where(is_second, value, 0.0)
    of_first, of_second = tl.sum(first, 0), tl.sum(second, 0)
    at = place * WIDTH + columns
    tl.store(of_places + at, (of_first + of_second).to(of_places.dtype.element_ty), mask=is_column)
    tl.store(of_segments + at, of_first, mask=is_column)
    tl.store(of_segments + num_places * WIDTH + at, of_second, mask=is_column)
