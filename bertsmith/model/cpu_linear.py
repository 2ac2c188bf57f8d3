"""A linear map on a CPU whose weights learn: the plain map, with gradients by our own function.

`cpu_weight_gradients.cpp` makes those of weights and bias in one call, where a processor's matrix
unit multiplies bfloat16 (AMX). Rows, and gradients of rows, are multiplied by torch, which is as
fast there. `functional.linear` is the definition, and takes what this does not: other types,
devices and processors.

Legend: T rows, I width of a row, O outputs.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.first_order import first_order
from bertsmith.native import call, has_fast_products, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_name("cpu_weight_gradients.cpp")


class _Given(ctypes.Structure):
    """`PlainGiven` of the source, `Given` of the one in float16."""

    _fields_ = (
        *pointers("gradients", "rows", "grad_weight", "grad_bias"),
        *int64s("num_rows", "width", "outputs"),
    )


def linear(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(T, I) rows by (O, I) weights, with (O,) biases: (T, O)."""
    if not suits(rows, weight, bias):
        return functional.linear(rows, weight, bias)
    product: Tensor = _Linear.apply(rows, weight, bias)  # type: ignore[no-untyped-call]
    return product


def suits(rows: Tensor, weight: Tensor, bias: Tensor) -> bool:
    """Whether somebody learns these weights, and the function is there for them and pays."""
    return (
        torch.is_grad_enabled()
        and weight.requires_grad
        and bias.requires_grad
        and rows.dim() == 2
        and rows.numel() > 0
        and weight.numel() > 0
        and rows.dtype == weight.dtype == bias.dtype == torch.bfloat16
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and has_fast_products(SOURCE, rows, in_tiles=True)
        and takes(SOURCE, weight, bias)
    )


def weight_gradients(
    gradients: Tensor, rows: Tensor, source: Path = SOURCE
) -> tuple[Tensor, Tensor]:
    """(T, O) gradients of what (T, I) rows became -> (O, I) of the weights, (O,) of the bias.

    The bias's is in float32. Both are made by that function of the source.
    """
    gradients, rows = gradients.contiguous(), rows.contiguous()
    (num_rows, outputs), width = gradients.shape, rows.shape[1]
    of_weight = gradients.new_empty(outputs, width)
    of_bias = gradients.new_empty(outputs, dtype=torch.float32)
    where = map(pointer, (gradients, rows, of_weight, of_bias))
    given = _Given(*where, num_rows, width, outputs)
    call(source, "weight_gradients", gradients, ctypes.byref(given))
    return of_weight, of_bias


def _product(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`functional.linear`, which would first write the bias to every row of the result.

    oneDNN's operator, which this build of torch may not have, adds it to each tile.
    """
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return functional.linear(rows, weight, bias)
    product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


class _Linear(torch.autograd.Function):
    """`functional.linear`, with its gradients."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        gradient = gradients[0]
        of_rows = gradient @ weight if ctx.needs_input_grad[0] else None
        of_weight, of_bias = weight_gradients(gradient, rows)
        return of_rows, of_weight, of_bias.to(weight.dtype)
