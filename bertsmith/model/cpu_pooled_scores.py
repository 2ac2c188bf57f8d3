"""The rows that a pooler reads -> scores of sequences, on a CPU where both maps learn: in one call.

The functions of `cpu_pooled_scores.cpp` do what `Bert.pool_rows` and a linear head define, dropout
masks to the bit, in bfloat16 where a processor multiplies it. Of a batch's few rows that is little
work, which as fifteen operators and as many on the way back took as long as a layer of a small
model. The definition takes what these do not: other types, devices and processors, widths that are
not whole panels, many scores, maps that do not learn, and maps that somebody watches or changed.

Differs: in bfloat16 only pooled vectors are rounded, and what comes back to them once, behind tanh.

Legend: N rows, H hidden size, C scores.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model.dropout import HEAD_SITE, NativeDropout, site_number
from bertsmith.model.first_order import first_order
from bertsmith.model.watched import is_watched
from bertsmith.native import call, has_fast_products, learns, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
_PANEL, _MOST_SCORES = 64, 64
"""What the width is a multiple of, and scores of a row at most: those of the source."""


class _Head(ctypes.Structure):
    """`Head` of the source."""

    _fields_ = (
        *pointers("dense", "dense_bias", "scores", "scores_bias", "keys"),
        ("site", ctypes.c_uint32),
        ("dropout", NativeDropout),
        *int64s("count", "width", "num_scores"),
    )

    @staticmethod
    def of(rows: Tensor, keys: Tensor | None, probability: float, *weights: Tensor) -> _Head:
        """Of weight and bias of both maps."""
        return _Head(
            *map(pointer, weights),
            pointer(keys),
            site_number(0, HEAD_SITE),
            NativeDropout.of(probability, has_words=keys is not None),
            *rows.shape,
            weights[-1].shape[0],
        )


class _Gradients(ctypes.Structure):
    """`Gradients` of the source."""

    _fields_ = pointers("given", "rows", "dense", "dense_bias", "scores", "scores_bias")


def pooled_scores(
    rows: Tensor, dense: nn.Linear, scores: nn.Linear, keys: Tensor | None, probability: float
) -> Tensor | None:
    """(N, H) rows -> (N, C) scores in float32; (N,) row keys switch dropout on.

    None where it is not for this function.
    """
    if not learns(rows, torch.bfloat16) or not all(map(_is_plain, (dense, scores))):
        return None
    weights = (dense.weight, dense.bias, scores.weight, scores.bias)
    if not _suits(rows, weights, keys):
        return None
    found: Tensor = _PooledScores.apply(  # type: ignore[no-untyped-call]
        rows.contiguous(), keys, probability, *weights
    )
    return found


class _PooledScores(torch.autograd.Function):
    """Of (N, H) rows, (N,) row keys of dropout, and weight and bias of both maps."""

    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, keys: Tensor | None, probability: float, *weights: Tensor
    ) -> Tensor:
        of = _Head.of(rows, keys, probability, *weights)
        pooled = torch.empty_like(rows)  # (N, H)
        found = rows.new_empty((len(rows), of.num_scores), dtype=torch.float32)  # (N, C)
        call(SOURCE, "pooled_scores", rows, ctypes.byref(of), *map(pointer, (rows, pooled, found)))
        ctx.save_for_backward(rows, keys, pooled, *weights)
        ctx.probability = probability
        return found

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        rows, keys, pooled, *weights = ctx.saved_tensors
        given = gradients[0].contiguous()  # (N, C)
        made = [torch.empty_like(each) for each in (rows, *weights)]
        of = _Head.of(rows, keys, ctx.probability, *weights)
        to = _Gradients(*map(pointer, (given, *made)))
        both = (ctypes.byref(of), pointer(rows), pointer(pooled), ctypes.byref(to))
        call(SOURCE, "pooled_scores_backward", rows, *both)
        return made[0], None, None, *made[1:]


def _is_plain(linear: nn.Linear) -> bool:
    """Whether it is a linear map with a bias, and nobody hooked into it or changed what it does."""
    is_as_made = type(linear).forward is nn.Linear.forward and not is_watched(linear)
    return is_as_made and linear.bias is not None


def _suits(rows: Tensor, weights: tuple[Tensor, ...], keys: Tensor | None) -> bool:
    """Whether the functions are there for these rows and weights, and somebody learns them."""
    width, num_scores = rows.shape[1], len(weights[-1])
    shapes = [(width, width), (width,), (num_scores, width), (num_scores,)]
    of_dropout = [] if keys is None else [keys]
    return (
        all(each.requires_grad and each.is_contiguous() for each in weights)
        and all(each.dtype == torch.bfloat16 for each in (rows, *weights))
        and [each.shape for each in weights] == shapes
        and all(each.shape == (len(rows),) and each.dtype == torch.int32 for each in of_dropout)
        and width % _PANEL == 0
        and 0 < num_scores <= _MOST_SCORES
        and len(rows) > 0
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and has_fast_products(SOURCE, rows, of_bfloat16=True)
        and takes(SOURCE, *weights, *of_dropout)
    )
