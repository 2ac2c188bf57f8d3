"""Products of float16 on a CPU: linear maps between float32 numbers, in less time than float32's.

Numbers stay float32, in memory and in all that is no product, so nothing overflows and no loss is
scaled: the functions of `cpu_float16_linear.cpp` round 64 numbers at a time to float16, by a power
of two that keeps them in its range, sum up their products in float16, and these sums in float32.
That is as exact as products of bfloat16 that are summed up in float32. Modules that are told to
(`train.device`) multiply so where the processor does (AVX512_FP16: Intel's, from Sapphire Rapids
on); `functional.linear` is the definition, and takes what this does not.

Legend: T rows, I width of a row, O outputs.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model import cpu_linear
from bertsmith.model.first_order import first_order
from bertsmith.native import call, multiplies_float16, pointer, takes

SOURCE = Path(__file__).with_name("cpu_float16_linear.cpp")


def suits(rows: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether the functions are there for these rows and this map."""
    return (
        rows.dim() == 2
        and rows.numel() > 0
        and weight.numel() > 0
        and rows.dtype == weight.dtype == bias.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and multiplies_float16()  # else nothing is built
        and takes(SOURCE, rows, weight, bias)
    )


def linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(T, I) rows by (O, I) weights, with (O,) biases: (T, O)."""
    if not suits(rows, weight, bias):
        return functional.linear(rows, weight, bias)
    result: Tensor = _Float16Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return result


def product(
    rows: Tensor, weight: Tensor, bias: Tensor | None = None, output: Tensor | None = None
) -> Tensor:
    """(T, I), (O, I), (O,) -> (T, O), in `output` if there is one."""
    output = rows.new_empty(len(rows), len(weight)) if output is None else output
    assert output.shape == (len(rows), len(weight))
    _multiply("product", output, rows, weight, bias)
    return output


def row_gradients(gradients: Tensor, weight: Tensor) -> Tensor:
    """(T, O) gradients of what (T, I) rows became, (O, I) weights -> (T, I) of the rows."""
    output = gradients.new_empty(len(gradients), weight.shape[1])
    _multiply("row_gradients", output, gradients, weight)
    return output


def weight_gradients(gradients: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """(T, O) gradients of what (T, I) rows became -> (O, I) of the weights, (O,) of the bias."""
    assert gradients.numel() > 0
    assert rows.numel() > 0
    return cpu_linear.weight_gradients(gradients, rows, SOURCE)


def _multiply(
    name: str, output: Tensor, rows: Tensor, weight: Tensor, *more: Tensor | None
) -> None:
    factors = [None if each is None else each.contiguous() for each in (rows, weight, *more)]
    outputs, width = weight.shape
    assert rows.numel() > 0
    assert weight.numel() > 0
    sizes = map(ctypes.c_int64, (len(rows), width, outputs))
    call(SOURCE, name, output, *map(pointer, (*factors, output)), *sizes)


class _Float16Linear(torch.autograd.Function):
    """`functional.linear`, with its gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return product(rows, weight, bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        of_rows = row_gradients(gradients[0], weight) if ctx.needs_input_grad[0] else None
        if not any(ctx.needs_input_grad[1:]):  # nobody learns the map
            return of_rows, None, None
        return of_rows, *weight_gradients(gradients[0], rows)
