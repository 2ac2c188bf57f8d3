"""Rows and the vocabulary's embedding on a CPU -> loss and all gradients, in one call.

The function of `cpu_whole_loss.cpp` gives what `vocabulary_loss` defines, products included, and
keeps the gradients of logits in the cache, where they are used up; that of `cpu_float16_loss.cpp`
makes the products of float16 (`float16`). The plain products and `cpu_vocabulary_loss` take what
this does not: other types, odd widths in bfloat16, and processors on which other products are
faster.

Differs: in bfloat16 logits are not rounded; e^(logit - the highest of its block of words) is. In
float16 what is multiplied is rounded, and no sum but those of 64 products.

Legend: M rows, H width, V vocabulary.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.model.cpu_vocabulary_loss import check_targets
from bertsmith.native import TYPES, call, has_fast_products, multiplies_float16, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
FLOAT16_SOURCE = Path(__file__).with_name("cpu_float16_loss.cpp")


class _Given(ctypes.Structure):
    """`Given` of the source."""

    _fields_ = (
        *pointers("rows", "embedding", "bias", "targets", "losses", "is_right"),
        *pointers("grad_rows", "grad_embedding", "grad_bias"),
        *int64s("num_rows", "num_words", "width"),
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


def loss_and_gradients(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool = False
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Summed loss and how many are right; gradients of rows, embedding and bias, (1, V).

    The bias's is in float32, the others in the rows' dtype. Raises ValueError for targets that are
    no words of the vocabulary.
    """
    check_targets(targets, len(embedding))
    rows, embedding = rows.detach().contiguous(), embedding.detach().contiguous()
    bias, targets = bias.detach().float().contiguous(), targets.contiguous()
    losses = bias.new_empty(len(rows))
    is_right = rows.new_empty(len(rows), dtype=torch.bool)
    gradients = (
        torch.empty_like(rows),
        torch.empty_like(embedding),
        bias.new_empty(1, len(embedding)),
    )
    tensors = (rows, embedding, bias, targets, losses, is_right, *gradients)
    of = _Given(*map(pointer, tensors), len(rows), *embedding.shape)
    source = FLOAT16_SOURCE if in_float16 else SOURCE
    call(source, "loss_and_gradients", rows, ctypes.byref(of))
    return (losses.sum(), is_right.sum()), gradients
