"""GELU on a CPU, of bfloat16 numbers: their values and gradients within what bfloat16 can tell.

`functional.gelu` is the definition, and takes what the functions of `cpu_gelu.cpp` do not: other
types and devices, and numbers that do not lie one behind the other.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.first_order import first_order
from bertsmith.native import call, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")


def gelu(inner: Tensor) -> Tensor:
    """Each number times the normal distribution's share below it, in the same shape."""
    if not suits(inner):
        return functional.gelu(inner)
    output: Tensor = _Gelu.apply(inner)  # type: ignore[no-untyped-call]
    return output


def suits(inner: Tensor) -> bool:
    """Whether the functions are there for these numbers."""
    return inner.dtype == torch.bfloat16 and inner.is_contiguous() and takes(SOURCE, inner)


class _Gelu(torch.autograd.Function):
    """`functional.gelu`, with its gradient."""

    @staticmethod
    def forward(ctx: Any, inner: Tensor) -> Tensor:
        ctx.save_for_backward(inner)
        return _made("gelu", inner)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (inner,) = ctx.saved_tensors
        return _made("gelu_gradients", gradients[0].contiguous(), inner)


def _made(name: str, *inputs: Tensor) -> Tensor:
    output = torch.empty_like(inputs[0])
    count = ctypes.c_int64(output.numel())
    call(SOURCE, name, output, *map(pointer, (*inputs, output)), count)
    return output
