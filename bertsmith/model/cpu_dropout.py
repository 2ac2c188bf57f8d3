"""Dropout of rows on a CPU, by the masks of `dropout`: one pass over memory, and back another.

`elementwise` is the definition, and takes what the function of `cpu_dropout.cpp` does not: other
types and devices, and a machine without a compiler.

Differs: in bfloat16 subnormal numbers become zero.

Legend: T rows, H columns.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.dropout import NativeDropout
from bertsmith.model.first_order import first_order
from bertsmith.native import call, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")


def suits(rows: Tensor, words: Tensor) -> bool:
    """Whether the function is there for these (T, H) rows and their (T,) words."""
    return (
        rows.dim() == 2
        and rows.numel() > 0
        and (words.dtype, words.shape) == (torch.int32, rows.shape[:1])
        and takes(SOURCE, rows, words)
    )


def drop(rows: Tensor, words: Tensor, probability: float) -> Tensor:
    """What is kept of (T, H) rows, enlarged, and zero elsewhere."""
    if not torch.is_grad_enabled():
        return _dropped(rows, words, probability)
    kept: Tensor = _Drop.apply(rows, words, probability)  # type: ignore[no-untyped-call]
    return kept


class _Drop(torch.autograd.Function):
    """`drop`, with its gradient."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, words: Tensor, probability: float) -> Tensor:
        ctx.save_for_backward(words)
        ctx.probability = probability
        return _dropped(rows, words, probability)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        (words,) = ctx.saved_tensors
        return _dropped(gradients[0], words, ctx.probability), None, None


def _dropped(rows: Tensor, words: Tensor, probability: float) -> Tensor:
    rows, words = rows.contiguous(), words.contiguous()
    to = torch.empty_like(rows)  # (T, H)
    of = ctypes.byref(NativeDropout.of(probability))
    sizes = map(ctypes.c_int64, rows.shape)
    call(SOURCE, "drop", rows, pointer(rows), pointer(words), of, *sizes, pointer(to))
    return to
