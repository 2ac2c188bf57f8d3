"""Self-attention of a packed stream where nobody asks for gradients, without a copy of the heads.

Neighbours of equal length are a rectangle as they lie in the stream, so torch's own kernel reads
queries, keys and values where the projection wrote them. Texts that somebody asks about come sorted
by length: few rectangles, none with an empty cell. Equal to `attention.attend`, which keeps what a
backward pass needs and groups nearly equal lengths from anywhere in the stream.

Legend: T tokens, H hidden size, A heads, K = H/A; n sequences of a rectangle, S tokens of each.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.config import Direction
from bertsmith.model.stream import Stream


def attend_without_gradient(
    qkv: Tensor, stream: Stream, num_heads: int, direction: Direction
) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts."""
    contexts = qkv.new_empty(len(qkv), qkv.shape[1] // 3)  # (T, H)
    for one in stream.rectangles:
        cells = qkv[one.start : one.end].view(one.num_sequences, one.length, 3, num_heads, -1)
        queries, keys, values = cells.permute(2, 0, 3, 1, 4)  # (n, A, S, K) each
        context = functional.scaled_dot_product_attention(
            queries,
            keys,
            values,
            attn_mask=_later(one.length, qkv.device) if direction == "right_to_left" else None,
            is_causal=direction == "left_to_right",
        ).transpose(1, 2)  # (n, S, A, K)
        contexts[one.start : one.end].view(context.shape).copy_(context)
    return contexts


def _later(length: int, device: torch.device) -> Tensor:
    """(S, S): True for keys that are the query itself or come after it."""
    return torch.ones(length, length, dtype=torch.bool, device=device).triu()
