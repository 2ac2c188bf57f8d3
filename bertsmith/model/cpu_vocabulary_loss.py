"""A chunk's logits on a CPU -> its loss and their gradient, in one pass over memory.

The function of `cpu_vocabulary_loss.cpp` gives what `vocabulary_loss` defines, which takes what
this does not: other devices, float64 and float16, and a machine without a compiler.

Legend: m rows of a chunk, V vocabulary.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.native import TYPES, call, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")


class _Chunk(ctypes.Structure):
    """`Chunk` of the source."""

    _fields_ = (
        *pointers("logits", "bias", "targets", "losses", "is_right", "grad_bias"),
        *int64s("num_rows", "num_words"),
    )


def suits(logits: Tensor, bias: Tensor, targets: Tensor) -> bool:
    """Whether the function is there for these (m, V) logits."""
    return (
        takes(SOURCE, logits, bias, targets)
        and targets.dtype == torch.int64
        and bias.dtype in TYPES
        and (len(targets), *bias.shape) == logits.shape
        and logits.is_contiguous()
        and logits.numel() > 0
    )


def loss_and_gradient(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, how many are right, and the (1, V) gradient of the bias, in float32.

    The gradient of the (m, V) logits takes their place, in their dtype. Raises ValueError for
    targets that are no words of the vocabulary, which would be looked up where no logits are.
    """
    num_rows, num_words = logits.shape
    check_targets(targets, num_words)
    bias, targets = bias.float().contiguous(), targets.contiguous()
    losses = bias.new_empty(num_rows)
    is_right = logits.new_empty(num_rows, dtype=torch.bool)
    grad_bias = bias.new_empty(1, num_words)
    tensors = (logits, bias, targets, losses, is_right, grad_bias)
    of = _Chunk(*map(pointer, tensors), num_rows, num_words)
    call(SOURCE, "loss_and_gradient", logits, ctypes.byref(of))
    return losses.sum(), is_right.sum(), grad_bias


def check_targets(targets: Tensor, num_words: int) -> None:
    """Raises ValueError for targets that are no words of the vocabulary."""
    lowest, highest = (int(each) for each in targets.aminmax())
    if lowest < 0 or highest >= num_words:
        raise ValueError(
            f"targets must be words of the vocabulary, 0 to {num_words - 1}; "
            f"found {lowest} to {highest}"
        )
