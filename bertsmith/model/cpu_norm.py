"""A sub-layer's end on a CPU: dropout, residual and LayerNorm in one pass, and back in another.

The functions of `cpu_norm.cpp` give the values, gradients and dropout masks of `elementwise`, which
stays the definition and takes what these do not: other devices, float64 and float16, norms that are
not in float32, lie apart or have no bias, and a machine without a compiler.

Differs: a float32 row whose numbers are all equal, which no model has, does not come out as exactly
its bias: its mean is rounded, and the norm enlarges what is left.

Legend: T rows, H hidden size.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model.dropout import NativeDropout
from bertsmith.model.first_order import first_order
from bertsmith.native import call, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")


@dataclass(frozen=True, kw_only=True)
class NormRules:
    """What is done beside the norm, and how."""

    epsilon: float
    probability: float
    """Of dropout, where there are words for it."""


class NativeNorm(ctypes.Structure):
    """`Norm` of the sources: where its weights lie."""

    _fields_ = (*pointers("weight", "bias"), ("epsilon", ctypes.c_float))


class _Rules(ctypes.Structure):
    """`NormRules` of the source."""

    _fields_ = (
        ("width", ctypes.c_int),
        ("epsilon", ctypes.c_float),
        ("before", NativeDropout),
        ("after", NativeDropout),
    )


class _Rows(ctypes.Structure):
    """`PlainRows` of the source."""

    _fields_ = (
        *pointers("rows", "residual", "before", "after", "weight", "bias"),
        *int64s("count"),
    )


def suits(rows: Tensor, residual: Tensor | None, norm: nn.LayerNorm) -> bool:
    """Whether the functions are there for these (T, H) rows and this norm."""
    others = [each for each in (residual, norm.weight, norm.bias) if each is not None]
    return (
        takes(SOURCE, rows, *others)
        and norm.bias is not None
        and norm.weight.dtype == norm.bias.dtype == torch.float32
        and norm.weight.shape == norm.bias.shape == rows.shape[1:]
        and norm.weight.is_contiguous()
        and norm.bias.is_contiguous()
        and (residual is None or (residual.dtype, residual.shape) == (rows.dtype, rows.shape))
        and rows.numel() > 0
    )


def add_and_norm(
    rows: Tensor, residual: Tensor, words: Tensor | None, probability: float, norm: nn.LayerNorm
) -> Tensor:
    """LayerNorm(residual + dropout(rows)), (T, H)."""
    rules = NormRules(epsilon=norm.eps, probability=probability)
    return _apply(rows, residual, words, None, norm, rules)


def norm_and_drop(
    rows: Tensor, words: Tensor | None, probability: float, norm: nn.LayerNorm
) -> Tensor:
    """dropout(LayerNorm(rows)), (T, H)."""
    rules = NormRules(epsilon=norm.eps, probability=probability)
    return _apply(rows, None, None, words, norm, rules)


def _apply(
    rows: Tensor,
    residual: Tensor | None,
    before: Tensor | None,
    after: Tensor | None,
    norm: nn.LayerNorm,
    rules: NormRules,
) -> Tensor:
    if rules.probability == 0.0:
        before = after = None
    residual = None if residual is None else residual.contiguous()
    tensors = (rows.contiguous(), residual, before, after, norm.weight, norm.bias)
    if not torch.is_grad_enabled():
        return _forward(tensors, rules)[0]
    normed: Tensor = _CpuNorm.apply(*tensors, rules)  # type: ignore[no-untyped-call]
    return normed


def _forward(
    tensors: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor, Tensor],
    rules: NormRules,
) -> tuple[Tensor, Tensor]:
    """The normed rows, (T, H), and two numbers of each that the way back needs."""
    rows = tensors[0]
    normed = torch.empty_like(rows)  # (T, H)
    statistics = rows.new_empty((len(rows), 2), dtype=torch.float32)
    _call("norm_forward", tensors, rules, normed, statistics)
    return normed, statistics


class _CpuNorm(torch.autograd.Function):
    """Of (T, H) rows and their residual, (T,) words of dropout before the norm and after it."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        residual: Tensor | None,
        before: Tensor | None,
        after: Tensor | None,
        weight: Tensor,
        bias: Tensor,
        rules: NormRules,
    ) -> Tensor:
        tensors = (rows, residual, before, after, weight, bias)
        normed, statistics = _forward(tensors, rules)
        ctx.save_for_backward(*tensors, statistics)
        ctx.rules = rules
        return normed

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *tensors, statistics = ctx.saved_tensors
        rows, residual, _, _, weight, _ = tensors
        gradient = gradients[0].contiguous()  # (T, H)
        grad_rows = torch.empty_like(rows)  # (T, H)
        grad_residual = None if residual is None else torch.empty_like(rows)
        grad_weights = weight.new_empty((2, len(weight)))
        _call(
            "norm_backward",
            tensors,
            ctx.rules,
            statistics,
            gradient,
            grad_rows,
            grad_residual,
            grad_weights,
        )
        return grad_rows, grad_residual, None, None, grad_weights[0], grad_weights[1], None


def _call(
    name: str,
    tensors: tuple[Tensor | None, ...] | list[Tensor | None],
    rules: NormRules,
    *others: Tensor | None,
) -> None:
    """`tensors`: rows, residual, words before and after the norm, its weight and its bias."""
    rows, _, before, after, _, _ = tensors
    assert rows is not None
    for words in (before, after):
        assert words is None or (words.dtype == torch.int32 and words.shape == rows.shape[:1])
    of = _Rows(*map(pointer, tensors), len(rows))
    told = _Rules(
        width=rows.shape[1],
        epsilon=rules.epsilon,
        before=NativeDropout.of(rules.probability, has_words=before is not None),
        after=NativeDropout.of(rules.probability, has_words=after is not None),
    )
    call(SOURCE, name, rows, ctypes.byref(of), ctypes.byref(told), *map(pointer, others))
