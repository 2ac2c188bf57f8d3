"""Lengths of sequences -> blocks: rectangles of a few sequences each, nearly full or small.

Sequences are grouped by length, so that attention's definition, which needs rectangles, works on
few cells that are no token. It knows no batch and no weights.

Legend: T rows, n sequences of one block, S the block's longest sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray, starts_of

# A block may be this much larger than its real tokens before it is cut in two: quadratic work grows
# by twice that share.
MAX_BLOCK_WASTE = 1.15
# A small block may be larger still, while its empty scores of a head are fewer than this: the calls
# of another block take longer.
MAX_SMALL_BLOCK_WASTE = 2.0
MAX_BLOCK_WASTED_SCORES = 2**13


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some sequences of the stream as a rectangle."""

    rows: Tensor
    """(n * S,) int64: the stream row of each cell; cells past a sequence's end repeat its first."""
    lengths: Tensor
    """(n,) int64: real cells of each sequence."""
    width: int
    """S."""
    start: int | None = None
    """The first cell's stream row, where the stream is one block and all its cells are real; of its
    parts too. Else None."""


def arranged_in_blocks(lengths: IntArray) -> tuple[list[Block], IntArray]:
    """Blocks on the CPU, in which every sequence lies once, and each row's cell.

    Cells are (T,) numbers, counted through the blocks.
    """
    width, total = int(lengths[0]), int(lengths.sum())
    if (lengths == width).all():  # cells and rows are the same
        as_they_lie: IntArray = np.arange(total)
        return [_block(as_they_lie, lengths, start=0)], as_they_lie
    starts = starts_of(lengths)
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    blocks: list[Block] = []
    cell_rows: IntArray = np.empty(total, dtype=np.int64)
    num_cells = 0
    for members in _groups(lengths[order]):
        block_lengths = lengths[order[members]]
        block_starts = starts[order[members]]
        width = int(block_lengths[0])
        columns = np.arange(width)
        real = columns < block_lengths[:, None]  # (n, S)
        rows = block_starts[:, None] + np.where(real, columns, 0)  # (n, S)
        cells = num_cells + np.arange(real.size).reshape(real.shape)
        cell_rows[rows[real]] = cells[real]
        num_cells += real.size
        blocks.append(_block(rows.reshape(-1), block_lengths))
    return blocks, cell_rows


def _block(rows: IntArray, lengths: IntArray, start: int | None = None) -> Block:
    """Of sequences in falling order of their lengths."""
    return Block(
        rows=torch.from_numpy(rows.astype(np.int64, copy=False)),
        lengths=torch.from_numpy(lengths.astype(np.int64)),
        width=int(lengths[0]),
        start=start,
    )


def _groups(sorted_lengths: IntArray) -> list[slice]:
    """Cuts lengths in falling order where the rectangle so far would become too empty."""
    groups, start, real, scores = [], 0, 0, 0
    for index, length in enumerate(sorted_lengths.tolist()):
        width = int(sorted_lengths[start])
        real, scores = real + length, scores + length**2
        cells = (index + 1 - start) * width
        is_small = cells * width - scores <= MAX_BLOCK_WASTED_SCORES
        if cells > (MAX_SMALL_BLOCK_WASTE if is_small else MAX_BLOCK_WASTE) * real:
            groups.append(slice(start, index))
            start, real, scores = index, length, length**2
    return [*groups, slice(start, len(sorted_lengths))]
