"""Rows and the vocabulary's embedding on a CPU -> loss, and all gradients, in one call each.

The functions of `cpu_whole_loss.cpp` give what `vocabulary_loss` defines, products included. The
way back makes gradients of what was kept, scaled by the loss's, and uses those of logits up in the
cache. Those of `cpu_float16_loss.cpp` make the products of float16 (`float16`). The plain products
and `cpu_vocabulary_loss` take what this does not: other types, odd widths in bfloat16, and
processors on which other products are faster.

Differs: in bfloat16 logits are not rounded; e^(logit - the highest of its block of words) is. In
float16 what is multiplied is rounded, and no sum but those of 64 products.

Legend: M rows, H width, V vocabulary.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.cpu_vocabulary_loss import check_targets
from bertsmith.model.first_order import first_order
from bertsmith.native import (
    TYPES,
    call,
    has_fast_products,
    multiplies_float16,
    pointer,
    room,
    takes,
)
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
FLOAT16_SOURCE = Path(__file__).with_name("cpu_float16_loss.cpp")


class _Given(ctypes.Structure):
    """`Given` of the source."""

    _fields_ = (
        *pointers("rows", "embedding", "bias", "targets", "losses", "is_right"),
        *pointers("grad_rows", "grad_embedding", "grad_bias", "kept"),
        *int64s("num_rows", "num_words", "width"),
        ("scale", ctypes.c_float),
    )


def suits(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool = False
) -> bool:
    """Whether the function is there for (M, H) rows and a (V, H) embedding, and pays.

    `in_float16`: the one whose products are made of float16 beside float32 numbers.
    """
    source = FLOAT16_SOURCE if in_float16 else SOURCE
    return (
        (multiplies_float16() or not in_float16)  # else nothing is built
        and takes(source, rows, embedding, bias, targets)
        and rows.dtype == embedding.dtype
        and rows.dim() == 2
        and targets.dtype == torch.int64
        and bias.dtype in TYPES
        and rows.shape[1:] == embedding.shape[1:]
        and (targets.shape, bias.shape) == (rows.shape[:1], embedding.shape[:1])
        and rows.numel() > 0
        and embedding.numel() > 0
        and not (rows.dtype == torch.bfloat16 and rows.shape[1] % 2)
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and (rows.dtype == torch.float32 or not in_float16)
        and has_fast_products(source, rows, of_float16=in_float16)
    )


def loss(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool = False
) -> tuple[Tensor, Tensor]:
    """Summed loss, whose gradient is of first order, and how many are right.

    Raises ValueError for targets that are no words of the vocabulary.
    """
    total, correct = _WholeLoss.apply(rows, embedding, bias, targets, in_float16)  # type: ignore[no-untyped-call]
    return total, correct


def loss_and_gradients(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool = False
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """As `loss`, without a history; gradients of rows, embedding and bias, (1, V).

    The bias's is in float32, the others in the rows' dtype.
    """
    of = _Call(rows, embedding, bias, targets, in_float16=in_float16)
    told, kept = of.loss()
    return told, of.gradients(kept, 1.0)


class _WholeLoss(torch.autograd.Function):
    """`loss`, which learns."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        embedding: Tensor,
        bias: Tensor,
        targets: Tensor,
        in_float16: bool,
    ) -> tuple[Tensor, Tensor]:
        (total, correct), kept = _Call(rows, embedding, bias, targets, in_float16=in_float16).loss()
        ctx.save_for_backward(rows, embedding, bias, targets, kept)
        ctx.in_float16 = in_float16
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *given, kept = ctx.saved_tensors
        of = _Call(*given, in_float16=ctx.in_float16)
        by_rows, by_embedding, by_bias = of.gradients(kept, float(gradients[0]))
        return by_rows, by_embedding, by_bias[0].to(given[2].dtype), None, None  # the bias's: (V,)


class _Call:
    """Tensors as the functions read them, and calls of these."""

    def __init__(
        self, rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool
    ) -> None:
        self._rows = rows.detach().contiguous()
        self._embedding = embedding.detach().contiguous()
        self._bias, self._targets = bias.detach().float().contiguous(), targets.contiguous()
        self._source = FLOAT16_SOURCE if in_float16 else SOURCE

    def loss(self) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """Summed loss and how many are right; and what the way back needs."""
        check_targets(self._targets, len(self._embedding))
        losses = self._bias.new_empty(len(self._rows))
        is_right = self._rows.new_empty(len(self._rows), dtype=torch.bool)
        of = self._given()
        kept = room(self._source, "loss_bytes", self._rows, ctypes.byref(of))
        of.losses, of.is_right, of.kept = map(pointer, (losses, is_right, kept))
        self._call("losses", of)
        return (losses.sum(), is_right.sum()), kept

    def gradients(self, kept: Tensor, scale: float) -> tuple[Tensor, Tensor, Tensor]:
        """Of rows, embedding and bias, (1, V), of the loss times the scale."""
        by_rows, by_embedding = torch.empty_like(self._rows), torch.empty_like(self._embedding)
        by_bias = self._bias.new_empty(1, len(self._bias))
        of = self._given()
        of.kept, of.scale = pointer(kept), scale
        of.grad_rows, of.grad_embedding, of.grad_bias = map(
            pointer, (by_rows, by_embedding, by_bias)
        )
        self._call("loss_gradients", of)
        return by_rows, by_embedding, by_bias

    def _given(self) -> _Given:
        """What is read alone."""
        num_words, width = self._embedding.shape
        return _Given(
            rows=pointer(self._rows),
            embedding=pointer(self._embedding),
            bias=pointer(self._bias),
            targets=pointer(self._targets),
            num_rows=len(self._rows),
            num_words=num_words,
            width=width,
        )

    def _call(self, name: str, of: _Given) -> None:
        call(self._source, name, self._rows, ctypes.byref(of))
