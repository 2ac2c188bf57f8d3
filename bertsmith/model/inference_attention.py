"""Self-attention of a packed stream on a CPU without a compiler, where nobody asks for gradients.

It also takes what the functions of `cpu_attention` do not. Neighbours of equal length are a
rectangle as they lie in the stream, so torch's own kernel reads queries, keys and values where the
projection wrote them. Texts that somebody asks about come sorted by length: few rectangles, none
with an empty cell. In bfloat16 two products and a softmax are faster than that kernel, once there
is enough to multiply. Equal to `block_attention.attend`, which keeps what a backward pass needs and
groups nearly equal lengths from anywhere in the stream.

Legend: T tokens, H hidden size, A heads, K = H/A; n sequences of a rectangle, S tokens of each.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.config import Direction
from bertsmith.model.stream import Rectangle, Stream

# Scores: with fewer, two products cost more calls than they save; more leave the cache.
_FEWEST_SCORES, _MOST_SCORES = 1 << 15, 1 << 19


def attend_without_gradient(
    qkv: Tensor, stream: Stream, num_heads: int, direction: Direction
) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts."""
    width = qkv.shape[1] // 3 // num_heads  # K
    contexts = qkv.new_empty(len(qkv), num_heads * width)  # (T, H)
    for one in stream.rectangles:
        num_together = _together(one, num_heads, qkv.dtype, direction)
        attend = _by_products if num_together else _by_kernel
        step = (num_together or one.num_sequences) * one.length
        for start in range(one.start, one.end, step):
            end = min(start + step, one.end)
            cells = qkv[start:end].view(-1, one.length, 3, num_heads, width)
            heads = cells.permute(2, 0, 3, 1, 4)  # (3, n, A, S, K)
            context = attend(heads, direction).transpose(1, 2)  # (n, S, A, K)
            if end - start == len(qkv):
                return context.reshape(contexts.shape)
            contexts[start:end].view(context.shape).copy_(context)
    contexts[stream.num_tokens :].zero_()
    return contexts


def _together(one: Rectangle, num_heads: int, dtype: torch.dtype, direction: Direction) -> int:
    """How many sequences of it the products take at a time; 0 where the kernel is better."""
    scores = num_heads * one.length**2  # of a sequence
    num_together = min(one.num_sequences, _MOST_SCORES // scores)
    is_worth_it = num_together * scores >= _FEWEST_SCORES
    is_suited = dtype == torch.bfloat16 and direction == "bidirectional"
    return num_together if is_suited and is_worth_it else 0


def _by_products(heads: Tensor, direction: Direction) -> Tensor:
    """(3, n, A, S, K) -> (n, A, S, K): scores and probabilities rounded, all sums in float32."""
    _, n, num_heads, length, width = heads.shape
    queries, keys, values = heads.reshape(3, n * num_heads, length, width)
    nothing = queries.new_empty(1, 1, 1)
    scores = torch.baddbmm(
        nothing, queries, keys.transpose(1, 2), beta=0.0, alpha=1.0 / math.sqrt(width)
    )  # (n * A, S, S)
    probabilities = torch.softmax(scores, dim=-1, dtype=torch.float32).to(values.dtype)
    return torch.bmm(probabilities, values).view(n, num_heads, length, width)


def _by_kernel(heads: Tensor, direction: Direction) -> Tensor:
    """(3, n, A, S, K) -> (n, A, S, K)."""
    queries, keys, values = heads
    return functional.scaled_dot_product_attention(
        queries,
        keys,
        values,
        attn_mask=_later(queries) if direction == "right_to_left" else None,
        is_causal=direction == "left_to_right",
    )


def _later(queries: Tensor) -> Tensor:
    """(S, S): True for keys that are the query itself or come after it."""
    length = queries.shape[2]
    return torch.ones(length, length, dtype=torch.bool, device=queries.device).triu()
