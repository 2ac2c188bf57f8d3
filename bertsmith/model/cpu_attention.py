"""Self-attention of a packed stream on a CPU: no scores in memory, no padding, no blocks.

The functions of `cpu_attention.cpp` read queries, keys and values where the projection wrote them
and write contexts where the next one reads them. Values, gradients and dropout masks are those of
`block_attention`, which stays the definition and takes what these do not: other devices, float64
and float16, heads of an odd size in bfloat16, very long sequences, and a machine without a
compiler. Which of the two takes a batch is decided for all its sequences at once.

Differs: in bfloat16 scores are not rounded, as blocks round them; probabilities and gradients of
scores are, where they are factors of a product.

Legend: T rows, N sequences, H hidden size, A heads, K = H/A.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.block_attention import DIRECTION_NUMBERS, AttentionRules
from bertsmith.model.dropout import NativeDropout
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream
from bertsmith.native import call, has_fast_products, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")
LONGEST = 2048
"""Tokens of a sequence, L: a thread works in 3 L^2 numbers."""
MOST_KEYS = 128
"""Keys of a query, in the mean, beyond which blocks are taken, in bfloat16 where a processor's own
products may be faster, with AMX, or these functions were built without the instruction for it: not
measured, so cautiously. Elsewhere blocks take 1.3 times the time of these functions at 128 keys, 3
times at 1,024 (docs/log.md)."""


class NativeRules(ctypes.Structure):
    """`Rules` of the sources."""

    _fields_ = (
        ("num_heads", ctypes.c_int),
        ("head_size", ctypes.c_int),
        ("direction", ctypes.c_int),
        ("scale", ctypes.c_float),
        ("dropout", NativeDropout),
    )

    @staticmethod
    def of(rules: AttentionRules, hidden_size: int, words: Tensor | None) -> NativeRules:
        """The rules for (T, H) rows, with dropout where there are words for it."""
        head_size = hidden_size // rules.num_heads
        return NativeRules(
            num_heads=rules.num_heads,
            head_size=head_size,
            direction=DIRECTION_NUMBERS[rules.direction],
            scale=1.0 / math.sqrt(head_size),
            dropout=NativeDropout.of(words, rules.probability),
        )


def suits(qkv: Tensor, stream: Stream, rules: AttentionRules) -> bool:
    """Whether the functions are there for these (T, 3H) queries, keys and values, and pay."""
    is_half = qkv.dtype == torch.bfloat16
    return (
        takes(SOURCE, qkv, stream.first_rows)
        and stream.longest <= LONGEST
        and not (is_half and qkv.shape[1] // 3 // rules.num_heads % 2)
        and not (
            is_half and stream.keys_per_query > MOST_KEYS and not has_fast_products(SOURCE, qkv)
        )
    )


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    context: Tensor = _CpuAttention.apply(  # type: ignore[no-untyped-call]
        qkv.contiguous(), words, stream, rules
    )
    return context


class _CpuAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules
    ) -> Tensor:
        ctx.save_for_backward(qkv, words)
        ctx.stream, ctx.rules = stream, rules
        contexts = stream.room_for_rows(qkv.shape[1] // 3, qkv)  # (T, H)
        _call("forward", qkv, words, stream, rules, contexts)
        return contexts

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        qkv, words = ctx.saved_tensors
        grad_qkv = ctx.stream.room_for_rows(qkv.shape[1], qkv)  # (T, 3H)
        gradient = gradients[0].contiguous()  # (T, H)
        _call("backward", qkv, words, ctx.stream, ctx.rules, gradient, grad_qkv)
        return grad_qkv, None, None, None


def _call(
    name: str,
    qkv: Tensor,
    words: Tensor | None,
    stream: Stream,
    rules: AttentionRules,
    *tensors: Tensor,
) -> None:
    """Calls the function of that name for all sequences; it writes into the last tensor."""
    assert words is None or (words.dtype == torch.int32 and words.shape == qkv.shape[:1])
    told = NativeRules.of(rules, qkv.shape[1] // 3, words)
    call(
        SOURCE,
        f"attention_{name}",
        qkv,
        *map(pointer, (qkv, words, stream.first_rows, stream.last_rows)),
        ctypes.c_int64(len(stream.first_rows)),
        ctypes.byref(told),
        *map(pointer, tensors),
    )
