"""Self-attention of a packed stream, block by block, with its backward pass: the definition.

The stream's blocks are rectangles of a few sequences, and what lies past a sequence's end gets
exactly zero weight. The backward pass is written out, because it needs less than automatic
differentiation would keep: the heads and the probabilities, from which the dropout mask is drawn
again. It does not know how the blocks were chosen.

Source: Vaswani et al. 2017, section 3.2; google-research/bert, modeling.py, attention_layer.

Legend: T rows, H hidden size, A heads, K = H/A; n sequences of a block, S its width; C cells of all
blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertsmith.fusion import fused, is_fusing
from bertsmith.model import block_cells
from bertsmith.model.config import Direction
from bertsmith.model.dropout import HEAD_BITS, keep_factors
from bertsmith.model.elementwise import widened
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Block, Stream

DIRECTION_NUMBERS: dict[Direction, int] = {
    "bidirectional": 0,
    "left_to_right": 1,
    "right_to_left": 2,
}
"""How kernels are told."""


_SCORES_IN_CACHE = 2**21


@dataclass(frozen=True, kw_only=True)
class AttentionRules:
    """What attention needs beside its inputs."""

    num_heads: int
    """A."""
    direction: Direction
    """Which keys a query may see."""
    probability: float
    """Dropout on the attention probabilities."""


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    context: Tensor = _Attention.apply(qkv, words, stream, rules)  # type: ignore[no-untyped-call]
    return context


def attention_probabilities(qkv: Tensor, block: Block, rules: AttentionRules) -> Tensor:
    """(n, A, S, S) attention probabilities of one block, for looking at; without dropout."""
    queries, keys, _ = block_cells.heads_of(qkv, block, rules.num_heads).unbind(0)
    scores = queries @ keys.transpose(2, 3)  # (n, A, S, S)
    return _probabilities(scores, block.lengths, rules.direction, _scale(queries))


class _Attention(torch.autograd.Function):
    """`attend`, with its backward pass."""

    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules
    ) -> Tensor:
        kept_for_backward = []
        context = block_cells.room_for(qkv, qkv.shape[1] // 3, stream)  # (C, H)
        blocks = list(_parts(stream, context, rules.num_heads))
        for block, cells in blocks:
            heads = block_cells.heads_of(qkv, block, rules.num_heads)  # (3, n, A, S, K)
            queries, keys, values = heads.unbind(0)
            scores = queries @ keys.transpose(2, 3)  # (n, A, S, S)
            probabilities = _probabilities(scores, block.lengths, rules.direction, _scale(queries))
            dropped = _dropped(probabilities, _block_words(words, block), rules.probability)
            block_cells.put((dropped @ values).transpose(1, 2), cells)  # (n, S, A, K)
            # Where drawing again is many passes over memory, what it left is kept.
            kept = None if words is None or _is_fusing(qkv) else dropped
            kept_for_backward += [heads, probabilities, kept]
        ctx.save_for_backward(words, *kept_for_backward)
        ctx.stream, ctx.rules = stream, rules
        ctx.blocks = [block for block, _ in blocks]
        return block_cells.to_rows(context, stream)  # (T, H)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        words, *kept = ctx.saved_tensors
        stream: Stream = ctx.stream
        grad_qkv = block_cells.room_for(gradients[0], 3 * gradients[0].shape[1], stream)  # (C, 3H)
        sizes = [len(block.rows) for block in ctx.blocks]
        parted = torch.split(grad_qkv[: sum(sizes)], sizes)
        for block, cells, heads, probabilities, dropped in zip(
            ctx.blocks, parted, kept[::3], kept[1::3], kept[2::3], strict=True
        ):
            gradient = block_cells.gradient_of(gradients[0], block, heads)  # (n, A, S, K)
            block_words = _block_words(words, block)
            weights = (probabilities, dropped)
            grad_heads = _backward(gradient, heads, weights, block_words, ctx.rules)
            block_cells.put(grad_heads.permute(1, 3, 0, 2, 4), cells)  # (n, S, 3, A, K)
        return block_cells.to_rows(grad_qkv, stream), None, None, None


def _parts(stream: Stream, cells: Tensor, num_heads: int) -> Iterator[tuple[Block, Tensor]]:
    """Blocks, each with its own of all (C, W) cells.

    Where every operator is a pass over memory of its own, a few sequences of a block at a time, so
    that their scores stay in the cache from one to the next.
    """
    is_whole = _is_fusing(cells)
    for block, of_block in zip(stream.blocks, stream.parted(cells), strict=True):
        count = max(1, _SCORES_IN_CACHE // (num_heads * block.width**2))
        if is_whole or count >= len(block.lengths):
            yield block, of_block
            continue
        splits = (
            torch.split(block.rows, count * block.width),
            torch.split(block.lengths, count),
            torch.split(of_block, count * block.width),
        )
        for rows, lengths, part in zip(*splits, strict=True):
            yield Block(rows=rows, lengths=lengths, width=block.width), part


def _backward(
    gradient: Tensor,
    heads: Tensor,
    weights: tuple[Tensor, Tensor | None],
    words: Tensor | None,
    rules: AttentionRules,
) -> Tensor:
    """Gradient of one block's context -> gradient of its heads, (3, n, A, S, K).

    `weights` are the probabilities, and what dropout left of them, if it was kept.
    """
    queries, keys, values = heads.unbind(0)
    grad_dropped = gradient @ values.transpose(2, 3)  # (n, A, S, S)
    probabilities, dropped = weights
    if dropped is not None:
        grad_scores = _softmax_backward_of(probabilities, dropped, grad_dropped, _scale(queries))
    else:
        dropped, grad_scores = _softmax_backward(
            probabilities, grad_dropped, words, rules.probability, _scale(queries)
        )
    grad_heads = torch.empty_like(heads)  # each product is written into its place, not copied there
    _multiply(grad_scores, keys, grad_heads[0])  # (n, A, S, K)
    _multiply(grad_scores.transpose(2, 3), queries, grad_heads[1])
    _multiply(dropped.transpose(2, 3), gradient, grad_heads[2])
    return grad_heads


def _multiply(left: Tensor, right: Tensor, product: Tensor) -> None:
    """Writes left @ right, matrices by sequence and head, into `product`."""
    torch.bmm(left.flatten(0, 1), right.flatten(0, 1), out=product.flatten(0, 1))


def _scale(queries: Tensor) -> float:
    return 1.0 / math.sqrt(queries.shape[-1])


def _block_words(words: Tensor | None, block: Block) -> Tensor | None:
    return None if words is None else words[block.rows].view(-1, block.width)  # (n, S)


@fused
def _probabilities(scores: Tensor, lengths: Tensor, direction: Direction, scale: float) -> Tensor:
    """Softmax over the keys a query may see, in the dtype of the scores."""
    # Differs from the paper's code: hidden keys weigh exactly nothing, where it adds -10,000.
    positions = torch.arange(scores.shape[-1], device=scores.device)
    hidden = (positions >= lengths[:, None])[:, None, None, :]  # (n, 1, 1, S)
    if direction == "left_to_right":
        hidden = hidden | (positions > positions[:, None])
    if direction == "right_to_left":
        # A query past the sequence's end would see nothing at all: it may see its own cell.
        hidden = (hidden & (positions != positions[:, None])) | (positions < positions[:, None])
    wide = widened(scores)
    # Added, for which a CPU has vectors; filling in where a mask says so it does one by one.
    masked = torch.zeros_like(hidden, dtype=wide.dtype).masked_fill_(hidden, -torch.inf)
    return torch.softmax(torch.add(masked, wide, alpha=scale), dim=-1).to(scores.dtype)


@fused
def _dropped_fused(probabilities: Tensor, words: Tensor, probability: float) -> Tensor:
    factors = _factors(probabilities, words, probability)
    return (widened(probabilities) * factors).to(probabilities.dtype)


def _dropped(probabilities: Tensor, words: Tensor | None, probability: float) -> Tensor:
    return probabilities if words is None else _dropped_fused(probabilities, words, probability)


@fused
def _softmax_backward(
    probabilities: Tensor,
    grad_dropped: Tensor,
    words: Tensor | None,
    probability: float,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """The dropped probabilities again, and the gradient of the scores."""
    weights, gradient = widened(probabilities), widened(grad_dropped)
    dropped = probabilities
    if words is not None:
        factors = _factors(probabilities, words, probability)
        gradient = gradient * factors
        dropped = (weights * factors).to(probabilities.dtype)
    inner = (weights * gradient).sum(dim=-1, keepdim=True)  # (n, A, S, 1)
    grad_scores = weights * (gradient - inner) * scale
    return dropped, grad_scores.to(probabilities.dtype)


def _softmax_backward_of(
    probabilities: Tensor, dropped: Tensor, grad_dropped: Tensor, scale: float
) -> Tensor:
    """The gradient of the scores, in passes that write where they read."""
    shares = widened(dropped) * widened(grad_dropped)
    inner = shares.sum(dim=-1, keepdim=True)  # (n, A, S, 1)
    grad_scores = shares.addcmul_(widened(probabilities), inner, value=-1.0).mul_(scale)
    return grad_scores.to(probabilities.dtype)


def _is_fusing(rows: Tensor) -> bool:
    """Whether what stands between two products is one pass over memory."""
    return rows.device.type != "cpu" or is_fusing("cpu")


def _factors(probabilities: Tensor, words: Tensor, probability: float) -> Tensor:
    """Keep factors of (n, A, S, S) probabilities from the (n, S) words of their queries."""
    _, num_heads, _, width = probabilities.shape
    numbers = [
        torch.arange(size, dtype=torch.int32, device=words.device) for size in (num_heads, width)
    ]
    columns = (numbers[0][:, None, None] << HEAD_BITS) | numbers[1]  # (A, 1, S)
    dtype = torch.promote_types(probabilities.dtype, torch.float32)
    return keep_factors(words[:, None, :, None], columns, probability, dtype)
