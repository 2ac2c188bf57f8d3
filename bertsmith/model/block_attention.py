"""Self-attention of a packed stream, block by block, with its backward pass: the definition.

The stream's blocks are rectangles of a few sequences, and what lies past a sequence's end gets
exactly zero weight. The backward pass is written out, because it needs less than automatic
differentiation would keep: the heads, the probabilities and, where it is not drawn again, the
dropout mask. Scales, of scores and of dropout, are factors of the products beside them. It does not
know how the blocks were chosen.

Source: Vaswani et al. 2017, section 3.2; google-research/bert, modeling.py, attention_layer.

Legend: T rows, H hidden size, A heads, K = H/A; n sequences of a block, S its width; C cells of all
blocks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from bertsmith.fusion import fused, is_eager_on_cpu
from bertsmith.model import block_cells
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.blocks import Block
from bertsmith.model.config import Direction
from bertsmith.model.dropout import HEAD_BITS, keep_mask
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream

_SCORES_IN_CACHE = 2**21


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    context: Tensor = _Attention.apply(qkv, words, stream, rules)  # type: ignore[no-untyped-call]
    return context


def attention_probabilities(qkv: Tensor, block: Block, rules: AttentionRules) -> Tensor:
    """(n, A, S, S) attention probabilities of one block, for looking at; without dropout."""
    queries, keys, _ = block_cells.heads_of(qkv, block, rules.num_heads).unbind(0)
    return _probabilities(_scores(queries, keys), _ends(block), rules.direction)


class _Attention(torch.autograd.Function):
    """`attend`, with its backward pass: (T, 3H) -> (T, H), and gradients of the former."""

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
            probabilities = _probabilities(_scores(queries, keys), _ends(block), rules.direction)
            block_words = _block_words(words, block)
            weights, mask = _dropout(probabilities, block_words, rules.probability)
            contexts = _product(weights, values, _dropout_scale(words, rules))  # (n, A, S, K)
            block_cells.put(contexts.transpose(1, 2), cells)
            kept_for_backward += [heads, probabilities, mask]
        ctx.save_for_backward(words, *kept_for_backward)
        ctx.stream, ctx.rules = stream, rules
        ctx.blocks = [block for block, _ in blocks]
        return block_cells.to_rows(context, stream)  # (T, H)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        words, *saved = ctx.saved_tensors
        stream: Stream = ctx.stream
        grad_qkv = block_cells.room_for(gradients[0], 3 * gradients[0].shape[1], stream)  # (C, 3H)
        sizes = [len(block.rows) for block in ctx.blocks]
        parted = torch.split(grad_qkv[: sum(sizes)], sizes)
        for block, cells, heads, probabilities, mask in zip(
            ctx.blocks, parted, saved[::3], saved[1::3], saved[2::3], strict=True
        ):
            gradient = block_cells.gradient_of(gradients[0], block, heads)  # (n, A, S, K)
            scale = _dropout_scale(words, ctx.rules)
            grad_weights = _product(gradient, heads[2].transpose(2, 3), scale)  # (n, A, S, S)
            given = mask, _block_words(words, block), ctx.rules.probability
            weights, grad_scores = _softmax_backward(probabilities, grad_weights, *given)
            grad_heads = _grad_heads(gradient, heads, weights, grad_scores, scale)
            block_cells.put(grad_heads.permute(1, 3, 0, 2, 4), cells)  # (n, S, 3, A, K)
        return block_cells.to_rows(grad_qkv, stream), None, None, None


def _parts(stream: Stream, cells: Tensor, num_heads: int) -> Iterator[tuple[Block, Tensor]]:
    """Blocks, each with its own of all (C, W) cells.

    Where every operator is a pass over memory of its own, a few sequences of a block at a time, so
    that their scores stay in the cache from one to the next.
    """
    is_whole = not is_eager_on_cpu(cells)
    for block, of_block in zip(stream.blocks, stream.parted(cells), strict=True):
        count = max(1, _SCORES_IN_CACHE // (num_heads * block.width**2))
        if is_whole or count >= len(block.lengths):
            yield block, of_block
            continue
        size = count * block.width
        cells_of = zip(torch.split(block.rows, size), torch.split(of_block, size), strict=True)
        for number, (rows, part) in enumerate(cells_of):
            lengths = block.lengths[number * count : (number + 1) * count]
            start = None if block.start is None else block.start + number * size
            yield Block(rows=rows, lengths=lengths, width=block.width, start=start), part


def _grad_heads(
    gradient: Tensor, heads: Tensor, weights: Tensor, grad_scores: Tensor, dropout_scale: float
) -> Tensor:
    """Gradients of one block's contexts and scores -> gradient of its heads, (3, n, A, S, K)."""
    queries, keys, _ = heads.unbind(0)
    scale = _scale(queries)
    grad_heads = torch.empty_like(heads)  # each product is written into its place, not copied there
    _multiply(grad_scores, keys, scale, grad_heads[0])  # (n, A, S, K)
    _multiply(grad_scores.transpose(2, 3), queries, scale, grad_heads[1])
    _multiply(weights.transpose(2, 3), gradient, dropout_scale, grad_heads[2])
    return grad_heads


def _scores(queries: Tensor, keys: Tensor) -> Tensor:
    """(n, A, S, S) scaled scores."""
    return _product(queries, keys.transpose(2, 3), _scale(queries))


def _product(left: Tensor, right: Tensor, scale: float) -> Tensor:
    """`scale` times left @ right, matrices by sequence and head; scaled before it is rounded."""
    product = left.new_empty((*left.shape[:-1], right.shape[-1]))
    _multiply(left, right, scale, product)
    return product


def _multiply(left: Tensor, right: Tensor, scale: float, product: Tensor) -> None:
    """The same, written into `product`, whatever stood there."""
    matrices = product.view(-1, *product.shape[2:])
    if _reads_what_stood(product):
        matrices.zero_()
    matrices.baddbmm_(left.flatten(0, 1), right.flatten(0, 1), beta=0.0, alpha=scale)


def _reads_what_stood(product: Tensor) -> bool:
    """MPS multiplies it by beta, and nothing times a NaN is one (PyTorch's issue 187521)."""
    return product.device.type == "mps"


def _scale(queries: Tensor) -> float:
    return 1.0 / math.sqrt(queries.shape[-1])


def _dropout_scale(words: Tensor | None, rules: AttentionRules) -> float:
    """What weights that dropout kept are multiplied by."""
    return 1.0 if words is None else 1.0 / (1.0 - rules.probability)


def _ends(block: Block) -> Tensor | None:
    """(n,) the sequences' lengths; None where all are known to be the block's width."""
    return block.lengths if block.start is None else None


def _block_words(words: Tensor | None, block: Block) -> Tensor | None:
    return None if words is None else words[block.rows].view(-1, block.width)  # (n, S)


@fused
def _probabilities(scores: Tensor, ends: Tensor | None, direction: Direction) -> Tensor:
    """Softmax over the keys a query may see, in the dtype of the scores."""
    unseen = _unseen(scores, ends, direction)
    if unseen is None:
        return torch.softmax(scores, dim=-1)
    # Added, for which a CPU has vectors; filling in where a mask says so it does one by one.
    masked = torch.zeros_like(unseen, dtype=scores.dtype).masked_fill_(unseen, -torch.inf)
    return torch.softmax(scores + masked, dim=-1)


def _unseen(scores: Tensor, ends: Tensor | None, direction: Direction) -> Tensor | None:
    """True for keys that a query may not see, (n or 1, 1, S or 1, S); None if there are none."""
    # Differs from the paper's code: unseen keys weigh exactly nothing, where it adds -10,000.
    positions = torch.arange(scores.shape[-1], device=scores.device)
    past = None if ends is None else (positions >= ends[:, None])[:, None, None, :]  # (n, 1, 1, S)
    if direction == "bidirectional":
        return past
    if direction == "left_to_right":
        later = positions > positions[:, None]
        return later[None, None] if past is None else past | later
    # A query past the sequence's end would see nothing at all: it may see its own cell.
    earlier = positions < positions[:, None]
    if past is None:
        return earlier[None, None]
    return (past & (positions != positions[:, None])) | earlier


def _dropout(
    probabilities: Tensor, words: Tensor | None, probability: float
) -> tuple[Tensor, Tensor | None]:
    """What dropout keeps of (n, A, S, S) probabilities, not scaled.

    And the mask, on a CPU where every operator is a pass; elsewhere it is drawn again on the way
    back, and takes no memory meanwhile.
    """
    if words is None:
        return probabilities, None
    if not is_eager_on_cpu(probabilities):
        return _kept_of(probabilities, words, probability), None
    mask = _mask(probabilities, words, probability)
    return probabilities * mask, mask


@fused
def _kept_of(probabilities: Tensor, words: Tensor, probability: float) -> Tensor:
    return probabilities * _mask(probabilities, words, probability)


@fused
def _softmax_backward(
    probabilities: Tensor,
    grad_weights: Tensor,
    mask: Tensor | None,
    words: Tensor | None,
    probability: float,
) -> tuple[Tensor, Tensor]:
    """What was kept of the probabilities, and the gradient of the scaled scores."""
    weights = probabilities
    if words is not None:
        mask = _mask(probabilities, words, probability) if mask is None else mask
        weights, grad_weights = weights * mask, grad_weights * mask
    of_scores = torch._softmax_backward_data(grad_weights, probabilities, -1, probabilities.dtype)
    return weights, of_scores


def _mask(values: Tensor, words: Tensor, probability: float) -> Tensor:
    """1 and 0 for (n, A, S, S) values, in their dtype, from the (n, S) words of their queries."""
    _, num_heads, _, width = values.shape
    numbers = [
        torch.arange(size, dtype=torch.int32, device=words.device) for size in (num_heads, width)
    ]
    columns = (numbers[0][:, None, None] << HEAD_BITS) | numbers[1]  # (A, 1, S)
    return keep_mask(words[:, None, :, None], columns, probability, values.dtype)
