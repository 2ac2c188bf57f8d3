"""Rows of the stream <-> the cells of its blocks, head by head.

A block is a rectangle, so a sequence shorter than the block has cells past its end: they are filled
on the way in, without a gradient, and left behind on the way out. This file knows no attention.

Legend: T rows, C cells of all blocks, H hidden size, A heads, K = H/A; n sequences of one block, S
its width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertsmith.fusion import fused
from bertsmith.model.stream import Block, Stream, builds_kernels_by_size

_MAX_WIDENED_WIDTH = 64


def heads_of(qkv: Tensor, block: Block, num_heads: int) -> Tensor:
    """Stream rows -> contiguous heads of one block, (3, n, A, S, K).

    In float32 for narrow blocks of a bfloat16 model on a CPU: they come in many sizes, each of
    which would have kernels built for it, and building them takes longer than their few products.
    """
    is_widened = block.width <= _MAX_WIDENED_WIDTH and builds_kernels_by_size(qkv)
    dtype = torch.float32 if is_widened else qkv.dtype
    return _to_heads(qkv, block.rows, block.lengths, num_heads, dtype)


@fused
def _to_heads(
    qkv: Tensor, rows: Tensor, lengths: Tensor, num_heads: int, dtype: torch.dtype
) -> Tensor:
    num_sequences = lengths.shape[0]
    width, head_size = rows.shape[0] // num_sequences, qkv.shape[1] // (3 * num_heads)
    cells = qkv[rows].view(num_sequences, width, 3, num_heads, head_size)
    return cells.permute(2, 0, 3, 1, 4).to(dtype).contiguous()


def gradient_of(gradient: Tensor, block: Block, heads: Tensor) -> Tensor:
    """Gradient rows -> heads of one block, (n, A, S, K), zero past a sequence's end."""
    num_heads, dtype = heads.shape[2], heads.dtype
    return _to_gradient_heads(gradient, block.rows, block.lengths, num_heads, dtype)


@fused
def _to_gradient_heads(
    gradient: Tensor, rows: Tensor, lengths: Tensor, num_heads: int, dtype: torch.dtype
) -> Tensor:
    num_sequences = lengths.shape[0]
    width, head_size = rows.shape[0] // num_sequences, gradient.shape[1] // num_heads
    cells = gradient[rows].view(num_sequences, width, num_heads, head_size)
    real = torch.arange(width, device=rows.device) < lengths[:, None]  # (n, S)
    return (cells * real[:, :, None, None]).permute(0, 2, 1, 3).to(dtype).contiguous()


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
