"""A packed batch of numpy arrays -> tensors on a device, laid out for attention.

The stream itself is never padded. Attention alone needs rectangles, so its sequences are grouped by
length into a few blocks, each nearly full; every other layer sees real tokens only. This file knows
no weights.

Legend: T tokens, N sequences, n sequences of one block, S the block's longest sequence.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch
from bertsmith.randomness import dropout_row_keys

# A block may be this much larger than its real tokens before it is cut in two. Quadratic work grows
# by the same share, and every further block costs a few more kernel calls.
MAX_BLOCK_WASTE = 1.15


@dataclass(frozen=True, kw_only=True)
class Block:
    """Some sequences of the stream as a rectangle."""

    rows: Tensor
    """(n * S,) int64: the stream row of each cell; cells past a sequence's end repeat its first."""
    lengths: Tensor
    """(n,) int64: real cells of each sequence."""
    width: int
    """S."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """N sequences laid end to end as tensors."""

    token_ids: Tensor
    """(T,) int64."""
    segment_ids: Tensor
    """(T,) int64."""
    positions: Tensor
    """(T,) int64, each counted from its own sequence's start."""
    first_rows: Tensor
    """(N,) int64: row of each sequence's first token."""
    last_rows: Tensor
    """(N,) int64: row of each sequence's last token."""
    blocks: tuple[Block, ...]
    """Every sequence lies in exactly one block."""
    cell_rows: Tensor
    """(T,) int64: where each stream row lies in the blocks' cells, laid end to end."""
    is_one_rectangle: bool
    """True when all sequences are equally long: cells and rows are the same."""
    row_keys: Tensor | None
    """(T,) int32: the words that dropout is drawn from; None when dropout is off."""

    @staticmethod
    def of(
        packed: PackedBatch,
        *,
        device: torch.device | str = "cpu",
        dropout: tuple[int, int] | None = None,
    ) -> Stream:
        """Moves a batch to a device; `dropout` = (seed, step) switches keyed dropout on."""
        starts = packed.starts
        blocks, cell_rows = _blocks(packed.lengths, starts)
        keys = None
        if dropout is not None:
            sequence_keys = np.repeat(packed.keys, packed.lengths)
            keys = torch.from_numpy(dropout_row_keys(*dropout, sequence_keys, packed.positions)).to(
                device
            )

        def tensor(array: IntArray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)).to(device)

        return Stream(
            token_ids=tensor(packed.token_ids),
            segment_ids=tensor(packed.segment_ids),
            positions=tensor(packed.positions),
            first_rows=tensor(starts),
            last_rows=tensor(starts + packed.lengths - 1),
            blocks=tuple(
                Block(rows=tensor(rows), lengths=tensor(lengths), width=width)
                for rows, lengths, width in blocks
            ),
            cell_rows=tensor(cell_rows),
            is_one_rectangle=bool((packed.lengths == packed.lengths[0]).all()),
            row_keys=keys,
        )

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.token_ids.shape[0]


def _blocks(
    lengths: IntArray, starts: IntArray
) -> tuple[list[tuple[IntArray, IntArray, int]], IntArray]:
    """Groups sequences by length: (rows, lengths, width) of each block, and each row's cell."""
    order = np.argsort(-lengths.astype(np.int64), kind="stable")
    blocks: list[tuple[IntArray, IntArray, int]] = []
    cell_rows: IntArray = np.empty(int(lengths.sum()), dtype=np.int64)
    num_cells = 0
    for members in _groups(lengths[order]):
        block_lengths = lengths[order[members]].astype(np.int64)
        block_starts = starts[order[members]]
        width = int(block_lengths[0])
        columns = np.arange(width)
        real = columns < block_lengths[:, None]  # (n, S)
        rows = block_starts[:, None] + np.where(real, columns, 0)  # (n, S)
        cells = num_cells + np.arange(real.size).reshape(real.shape)
        cell_rows[rows[real]] = cells[real]
        num_cells += real.size
        blocks.append((rows.reshape(-1), block_lengths, width))
    return blocks, cell_rows


def _groups(sorted_lengths: IntArray) -> list[slice]:
    """Cuts lengths in falling order where the rectangle so far would become too empty."""
    groups, start, real = [], 0, 0
    for index, length in enumerate(sorted_lengths.tolist()):
        cells = (index + 1 - start) * int(sorted_lengths[start])
        if index > start and cells > MAX_BLOCK_WASTE * (real + length):
            groups.append(slice(start, index))
            start, real = index, 0
        real += length
    return [*groups, slice(start, len(sorted_lengths))]
