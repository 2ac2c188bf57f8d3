"""A packed batch of numpy arrays -> tensors on a device, laid out for attention.

The stream is not padded. Attention's definition alone needs rectangles, and where it asks for them
sequences are grouped into `blocks`; every other layer sees rows of real tokens, and where it is
asked for a few spare ones, so that steps come in few sizes. This file knows no weights.

Legend: T rows (tokens, then spare rows), N sequences, n sequences of one rectangle or block, S the
tokens of its longest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch, starts_of
from bertsmith.model.blocks import Block, arranged_in_blocks
from bertsmith.randomness import dropout_row_keys

# 128 bytes, counted in int64 elements.
_CACHE_LINE = 16


@dataclass(frozen=True, kw_only=True)
class Rectangle:
    """Neighbours of equal length: a rectangle as they lie in the stream."""

    start: int
    """The stream row of the first token."""
    num_sequences: int
    """n."""
    length: int
    """Tokens of each."""

    @property
    def end(self) -> int:
        """The row behind the last token."""
        return self.start + self.num_sequences * self.length


@dataclass(frozen=True, kw_only=True)
class Stream:
    """N sequences laid end to end as tensors."""

    num_tokens: int
    """How many of the T rows are tokens; the others are spare."""
    is_rounded: bool
    """Whether rows come in round numbers."""
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
    lengths: IntArray
    """(N,) tokens of each sequence, an array."""
    row_keys: Tensor | None
    """(T,) int32: the words that dropout is drawn from; None when dropout is off."""

    @staticmethod
    def of(
        packed: PackedBatch,
        *,
        device: torch.device | str = "cpu",
        dropout: tuple[int, int] | None = None,
        is_rounded: bool = False,
    ) -> Stream:
        """Moves a batch to a device; `dropout` = (seed, step) switches keyed dropout on.

        If `is_rounded`, spare rows fill the tokens up to a round number of rows. They belong to no
        sequence, nothing reads them, and they have no gradient.
        """
        starts, positions = packed.starts, packed.positions
        num_tokens = packed.num_tokens
        num_spare = rounded(num_tokens) - num_tokens if is_rounded else 0
        of_rows = [packed.token_ids, packed.segment_ids, positions]
        if dropout is not None:
            sequence_keys = np.repeat(packed.keys, packed.lengths)
            of_rows.append(dropout_row_keys(*dropout, sequence_keys, positions))
        arrays = [starts, starts + packed.lengths - 1]
        arrays += [_filled_up(array, 0, num_spare) for array in of_rows]
        moved = tensors(arrays, torch.device(device))
        return Stream(
            num_tokens=num_tokens,
            is_rounded=is_rounded,
            first_rows=moved[0],
            last_rows=moved[1],
            token_ids=moved[2],
            segment_ids=moved[3],
            positions=moved[4],
            row_keys=None if dropout is None else moved[5].int(),
            lengths=packed.lengths,
        )

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every sequence lies in exactly one block."""
        return self._cells[0]

    @property
    def cell_rows(self) -> Tensor:
        """(T,) int64: where each stream row lies in the blocks' cells, laid end to end.

        Spare rows lie in the last cell, which belongs to no block.
        """
        return self._cells[1]

    @cached_property
    def _cells(self) -> tuple[tuple[Block, ...], Tensor]:
        """`blocks` and `cell_rows`, made together when either is first asked for."""
        arranged, cell_rows = arranged_in_blocks(self.lengths)
        num_cells = sum(len(block.rows) for block in arranged)
        arrays = [_filled_up(cell_rows, num_cells, self.num_rows - self.num_tokens)]
        arrays += [each.numpy() for block in arranged for each in (block.rows, block.lengths)]
        moved = tensors(arrays, self.token_ids.device)
        of_blocks = zip(arranged, moved[1::2], moved[2::2], strict=True)
        blocks = (replace(block, rows=rows, lengths=lengths) for block, rows, lengths in of_blocks)
        return tuple(blocks), moved[0]

    @cached_property
    def rectangles(self) -> tuple[Rectangle, ...]:
        """Every sequence lies in exactly one, in the stream's order."""
        return _rectangles(self.lengths)

    @cached_property
    def is_one_rectangle(self) -> bool:
        """True when all sequences are equally long and no row is spare.

        Then cells and rows are the same.
        """
        return not self.has_spare_rows and bool((self.lengths == self.lengths[0]).all())

    @cached_property
    def keys_per_query(self) -> float:
        """Tokens that a token may attend to, in the mean, itself included: of both directions."""
        return float(np.square(self.lengths, dtype=np.float64).sum() / self.num_tokens)

    def keys_of(self, rows: Tensor | None) -> Tensor | None:
        """The row keys of some rows, of all for None; None when dropout is off."""
        if rows is None or self.row_keys is None:
            return self.row_keys
        return self.row_keys.index_select(0, rows)

    @property
    def token_keys(self) -> Tensor | None:
        """The row keys of the tokens alone."""
        if self.row_keys is None or not self.has_spare_rows:
            return self.row_keys
        return self.row_keys[: self.num_tokens]

    @property
    def num_rows(self) -> int:
        """T."""
        return self.token_ids.shape[0]

    @property
    def has_spare_rows(self) -> bool:
        """Whether rows follow that are no tokens."""
        return self.num_rows > self.num_tokens

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return int(self.lengths.max())

    @property
    def num_cells(self) -> int:
        """Cells of all blocks, and one more where there are spare rows."""
        return sum(block.rows.shape[0] for block in self.blocks) + self.has_spare_rows

    def with_spare(self, rows: Tensor | None) -> Tensor | None:
        """As many rows as are round, if they are to be: the first stream row fills them up."""
        if rows is None or not self.is_rounded or rounded(len(rows)) == len(rows):
            return rows
        return torch.cat([rows, rows.new_zeros(rounded(len(rows)) - len(rows))])

    def room_for_rows(self, width: int, like: Tensor) -> Tensor:
        """Where kernels write the rows of sequences, (T, width); spare rows are zero."""
        room = like.new_empty((self.num_rows, width))
        if self.has_spare_rows:
            room[self.num_tokens :].zero_()
        return room

    def parted(self, cells: Tensor) -> list[Tensor]:
        """Of all cells, (C, W) in the blocks' order, each block's: (n * S, W)."""
        sizes = [block.rows.shape[0] for block in self.blocks]
        return list(torch.split(cells[: sum(sizes)], sizes))


def rounded(count: int) -> int:
    """The next number of five binary digits and zeros: at most 1/16 more, 16 to an octave."""
    step = 1 << max(0, count.bit_length() - 5)
    return -(-count // step) * step


def builds_kernels_by_size(values: Tensor) -> bool:
    """Whether the first product of a size with such values takes longer than those that follow.

    On a CPU in bfloat16 oneDNN builds kernels for each size that it meets, and keeps them.
    """
    return values.dtype == torch.bfloat16 and values.device.type == "cpu"


def tensors(arrays: Sequence[IntArray], device: torch.device) -> list[Tensor]:
    """Arrays of one dimension -> int64 tensors on the device; a GPU takes them in one copy."""
    if device.type != "cuda":
        whole = [torch.from_numpy(np.ascontiguousarray(array, dtype=np.int64)) for array in arrays]
        return whole if device.type == "cpu" else [each.to(device) for each in whole]
    # From pinned memory nobody waits for the copy. Kernels want each tensor to start on a cache
    # line, and to be a tensor of its own: for a view torch.compile makes another kernel.
    spans = [-(-len(array) // _CACHE_LINE) * _CACHE_LINE for array in arrays]
    pinned = torch.empty(sum(spans), dtype=torch.int64, pin_memory=True)
    # By numpy: torch would wake its threads for every array, and a GPU wait for the slowest.
    for span, array in zip(torch.split(pinned, spans), arrays, strict=True):
        span.numpy()[: len(array)] = array
    there = torch.split(pinned.to(device, non_blocking=True), spans)
    return [span[: len(array)].data for span, array in zip(there, arrays, strict=True)]


def _filled_up(array: IntArray, value: int, num_more: int) -> IntArray:
    """The array with the value behind it, so many times."""
    if not num_more:
        return array
    return np.concatenate([array, np.full(num_more, value, dtype=array.dtype)])


def _rectangles(lengths: IntArray) -> tuple[Rectangle, ...]:
    """Cuts the stream where the length changes."""
    if len(lengths) == 1:  # what one text alone would wait for
        return (Rectangle(start=0, num_sequences=1, length=int(lengths[0])),)
    starts = starts_of(lengths)
    edges = [0, *(np.flatnonzero(np.diff(lengths)) + 1).tolist(), len(lengths)]
    return tuple(
        Rectangle(start=int(starts[first]), num_sequences=end - first, length=int(lengths[first]))
        for first, end in pairwise(edges)
    )
