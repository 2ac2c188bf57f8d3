"""Sums over rows on a GPU, in float32 and always in the same order: kernels of `sum_kernels`.

Few columns of many rows are what torch's own sums take longest for: they are made for whole
matrices, and a step of BASE has fifty of these.

Legend: P rows of sums, W columns; T tokens, H hidden size, L tokens of the longest sequence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.model.stream import Stream

ROWS_TILE = {"ROWS": 256, "COLUMNS": 32}
ROWS_OPTIONS = {"num_warps": 8}
PLACES_TILE = {"SEQUENCES": 16, "COLUMNS": 128}
PLACES_OPTIONS = {"num_warps": 4}
MOST_SEGMENTS = 2
"""What `by_place` takes."""


def of_rows(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """(P, W) float32 -> (W,), or (K, P, W) -> (K, W), rounded to that type once."""
    from bertsmith.model import sum_kernels

    *lead, num_rows, width = rows.shape
    found = rows.new_empty((*lead, width), dtype=dtype)
    num_sums = lead[0] if lead else 1
    grid = (-(-width // ROWS_TILE["COLUMNS"]), num_sums, 1)
    arguments = (rows, found, num_rows, width)
    gpu_kernels.launch(sum_kernels.sum_rows, grid, arguments, ROWS_TILE, ROWS_OPTIONS)
    return found


def by_place(
    rows: Tensor, stream: Stream, num_segments: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """(T, H) float32 rows of a stream's tokens -> their sums by place and by segment, rounded once.

    (L, H), and of one or two segments (num_segments, H); an id beyond them counts as the last.
    """
    from bertsmith.model import sum_kernels

    longest, width = stream.longest, rows.shape[1]
    of_places = rows.new_empty((longest, width), dtype=dtype)
    of_segments = rows.new_empty((MOST_SEGMENTS, longest, width))
    grid = (-(-width // PLACES_TILE["COLUMNS"]), longest, 1)
    arguments = (
        rows, stream.first_rows, stream.last_rows, stream.segment_ids, of_places, of_segments,
        len(stream.first_rows), num_segments,
    )  # fmt: skip
    constants = {"WIDTH": width, **PLACES_TILE}
    gpu_kernels.launch(sum_kernels.sum_by_place, grid, arguments, constants, PLACES_OPTIONS)
    return of_places, of_rows(of_segments, dtype)[:num_segments]
