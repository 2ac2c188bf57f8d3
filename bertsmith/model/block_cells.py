"""Rows of the stream <-> the cells of its blocks, head by head.

A block is a rectangle, so a sequence shorter than the block has cells past its end: they are filled
on the way in, without a gradient, and left behind on the way out. This file knows no attention.

Legend: T rows, C cells of all blocks, H hidden size, A heads, K = H/A; n sequences of one block, S
its width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertsmith.fusion import fused, is_fusing
from bertsmith.model.blocks import Block
from bertsmith.model.stream import Stream, builds_kernels_by_size

_MAX_WIDENED_WIDTH = 64


def heads_of(qkv: Tensor, block: Block, num_heads: int) -> Tensor:
    """Stream rows -> contiguous heads of one block, (3, n, A, S, K).

    In float32 for narrow blocks of a bfloat16 model on a CPU: they come in many sizes, each of
    which would have kernels built for it, and building them takes longer than their few products.
    """
    is_widened = block.width <= _MAX_WIDENED_WIDTH and builds_kernels_by_size(qkv)
    dtype = torch.float32 if is_widened else qkv.dtype
    return _to_heads(*_among(qkv, block), block.lengths, num_heads, dtype)


@fused
def _to_heads(
    qkv: Tensor, rows: Tensor | None, lengths: Tensor, num_heads: int, dtype: torch.dtype
) -> Tensor:
    cells = qkv if rows is None else qkv[rows]  # (n * S, 3H)
    in_heads = cells.view(lengths.shape[0], -1, 3, num_heads, qkv.shape[1] // (3 * num_heads))
    return in_heads.permute(2, 0, 3, 1, 4).to(dtype).contiguous()


def gradient_of(gradient: Tensor, block: Block, heads: Tensor) -> Tensor:
    """Gradient rows -> heads of one block, (n, A, S, K), zero past a sequence's end."""
    num_heads, dtype = heads.shape[2], heads.dtype
    return _to_gradient_heads(*_among(gradient, block), block.lengths, num_heads, dtype)


@fused
def _to_gradient_heads(
    gradient: Tensor, rows: Tensor | None, lengths: Tensor, num_heads: int, dtype: torch.dtype
) -> Tensor:
    cells = gradient if rows is None else gradient[rows]  # (n * S, H)
    in_heads = cells.view(lengths.shape[0], -1, num_heads, gradient.shape[1] // num_heads)
    if rows is not None:
        real = torch.arange(in_heads.shape[1], device=rows.device) < lengths[:, None]  # (n, S)
        in_heads = in_heads * real[:, :, None, None]
    return in_heads.permute(0, 2, 1, 3).to(dtype).contiguous()


def _among(values: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
    """The rows that a block's cells are among, and which; None: all of them, as they lie.

    A kernel finds them anyway, and a view would be built another one.
    """
    if block.start is None or is_fusing(values.device.type):
        return values, block.rows
    return values.narrow(0, block.start, len(block.rows)), None


def room_for(rows: Tensor, width: int, stream: Stream) -> Tensor:
    """Where the blocks' cells will lie, (C, width); the one that spare rows read is zero."""
    room = rows.new_empty((stream.num_cells, width))
    if stream.has_spare_rows:
        room[-1].zero_()
    return room


def put(values: Tensor, cells: Tensor) -> None:
    """Values of (n, S, ...) into a block's (n * S, W) cells."""
    cells.view(values.shape).copy_(values)


def to_rows(cells: Tensor, stream: Stream) -> Tensor:
    """Cells of all blocks -> stream rows; cells past a sequence's end are left behind."""
    return cells if stream.is_one_rectangle else cells.index_select(0, stream.cell_rows)
