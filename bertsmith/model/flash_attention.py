"""Self-attention of a packed stream on a GPU: no scores in memory, no padding, no blocks.

The kernels of `flash_kernels` read queries, keys and values where the projection wrote them and
write contexts where the next one reads them. Values, gradients and dropout masks are those of
`block_attention`, which stays the definition and takes what these do not: other devices, float64,
very wide heads, and a GPU without Triton.

Differs: a row that sees one key only has a query gradient of exactly zero there, and of rounding
alone here.

Legend: T rows, N sequences, H hidden size, A heads, K = H/A.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bertsmith.fusion import is_fusing
from bertsmith.model.block_attention import DIRECTION_NUMBERS, AttentionRules
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream

WIDEST_HEADS = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 64}
"""K at most, by type: tiles of wider heads do not fit into a multiprocessor's registers."""
OLDEST_GPU = (8, 0)
"""Compute capability from which there is bfloat16, and room for the tiles."""
LAUNCH_OPTIONS = {"num_warps": 4, "num_stages": 2}
_FEWEST_COLUMNS = 16  # of a tile that the matrix units multiply


def suits(qkv: Tensor, rules: AttentionRules) -> bool:
    """Whether the kernels take these (T, 3H) queries, keys and values."""
    return (
        qkv.device.type == "cuda"
        and _head_size(qkv, rules) <= WIDEST_HEADS.get(qkv.dtype, 0)
        and torch.version.hip is None  # AMD's tiles are not these, and nobody has tried them
        and torch.cuda.get_device_capability(qkv.device) >= OLDEST_GPU
        and not torch.compiler.is_compiling()
        and is_fusing("cuda")
    )


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    context: Tensor = _FlashAttention.apply(  # type: ignore[no-untyped-call]
        qkv.contiguous(), words, stream, rules
    )
    return context


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules
    ) -> Tensor:
        from bertsmith.model import flash_kernels

        launch = _Launch(qkv=qkv, words=words, stream=stream, rules=rules)
        context = stream.room_for_rows(qkv.shape[1] // 3, qkv)  # (T, H)
        log_sums = qkv.new_empty((rules.num_heads, len(qkv)), dtype=torch.float32)  # (A, T)
        launch(flash_kernels.attention_forward, context, log_sums)
        ctx.save_for_backward(qkv, words, context, log_sums)
        ctx.stream, ctx.rules = stream, rules
        return context

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        from bertsmith.model import flash_kernels

        qkv, words, context, log_sums = ctx.saved_tensors
        launch = _Launch(qkv=qkv, words=words, stream=ctx.stream, rules=ctx.rules)
        gradient = gradients[0].contiguous()  # (T, H)
        grad_qkv = ctx.stream.room_for_rows(qkv.shape[1], qkv)  # (T, 3H)
        inner = torch.empty_like(log_sums)
        kept = (context, log_sums, gradient, inner, grad_qkv)
        launch(flash_kernels.attention_backward_of_queries, *kept)  # makes the inner products
        launch(flash_kernels.attention_backward_of_keys, *kept[1:])
        return grad_qkv, None, None, None


@dataclass(frozen=True, kw_only=True)
class _Launch:
    """What all kernels are told alike."""

    qkv: Tensor
    words: Tensor | None
    stream: Stream
    rules: AttentionRules

    def __call__(self, kernel: Any, *tensors: Tensor) -> None:
        """Runs a program for each sequence, tile of the longest, and head."""
        head_size = _head_size(self.qkv, self.rules)
        probability = 0.0 if self.words is None else self.rules.probability
        constants = kernel_constants(self.qkv.dtype, head_size, self.rules, probability)
        num_tiles = -(-self.stream.longest // int(constants["TILE"]))
        grid = (len(self.stream.first_rows), num_tiles, self.rules.num_heads)
        with torch.cuda.device_of(self.qkv):  # type: ignore[no-untyped-call]
            kernel[grid](
                self.qkv,
                self.words,
                self.stream.first_rows,
                self.stream.last_rows,
                *tensors,
                len(self.qkv),
                1.0 / math.sqrt(head_size),
                1.0 / (1.0 - probability),
                **constants,
                **LAUNCH_OPTIONS,
            )


def kernel_constants(
    dtype: torch.dtype, head_size: int, rules: AttentionRules, probability: float
) -> dict[str, int | str]:
    """What a kernel is built for: another kernel for each."""
    span = max(_FEWEST_COLUMNS, 1 << (head_size - 1).bit_length())
    is_rounded = dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return {
        "HEADS": rules.num_heads,
        "HEAD": head_size,
        "SPAN": span,
        "DIRECTION": DIRECTION_NUMBERS[rules.direction],
        "BAR": int(probability * 2**31),
        "TILE": 64 if dtype != torch.float32 and span <= 64 else 32,
        "PRECISION": "tf32" if is_rounded else "ieee",
    }


def _head_size(qkv: Tensor, rules: AttentionRules) -> int:
    return qkv.shape[1] // 3 // rules.num_heads
