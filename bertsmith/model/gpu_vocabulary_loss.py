"""A chunk's logits on a GPU -> its loss and their gradient, in one pass over memory each.

The kernels of `vocabulary_kernels` give what `vocabulary_loss` defines, which takes what these do
not: other devices and types, and no rows at all.

Differs: the gradient of the bias is summed before that of the logits is rounded; more digits are
left of a loss that is nearly nothing; a target beyond the vocabulary gives no number (NaN), where
operators end the process.

Legend: m rows of a chunk, V vocabulary, P programs that share the rows.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.model import gpu_sums

LANES = {"LANES": 256}
TILE = {"COLUMNS": 1024}
OPTIONS = {"num_warps": 4}
_NUM_PROGRAMS = 1584
"""For all tiles of columns together. Twelve for each of an H100's multiprocessors, as many as their
registers leave room for: they wait for memory, and more of them for more of it at once."""
_TYPES = (torch.bfloat16, torch.float16, torch.float32)


def suits(logits: Tensor, bias: Tensor, targets: Tensor) -> bool:
    """Whether the kernels are there for these (m, V) logits."""
    return (
        logits.is_cuda
        and logits.dtype in _TYPES
        and bias.dtype in _TYPES
        and targets.dtype == torch.int64
        and (len(targets), *bias.shape) == logits.shape
        and all(each.device == logits.device for each in (bias, targets))
        and logits.is_contiguous()
        and logits.numel() > 0
        and gpu_kernels.run_on(logits.device)
    )


def loss(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Summed loss, in float32, and how many are right."""
    (losses, _, _), is_right = _scored(logits, bias.contiguous(), targets.contiguous())
    return losses.sum(), is_right.sum()


def loss_and_gradient(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `loss`, and the (1, V) gradient of the bias, in float32.

    The gradient of the (m, V) logits takes their place, in their dtype.
    """
    from bertsmith.model import vocabulary_kernels

    bias, targets = bias.contiguous(), targets.contiguous()
    (losses, highests, log_sums), is_right = _scored(logits, bias, targets)
    # Less one before anything is rounded: next to 1 little would be left of it.
    at_targets = torch.expm1(-losses)
    num_rows, num_words = logits.shape
    num_tiles = -(-num_words // TILE["COLUMNS"])
    num_programs = min(max(1, _NUM_PROGRAMS // num_tiles), num_rows)
    sums = losses.new_empty(num_programs, num_words)
    arguments = (logits, bias, targets, highests, log_sums, at_targets, sums, num_rows)
    grid, built_for = (num_programs, num_tiles, 1), {"WORDS": num_words, **TILE}
    kernel = vocabulary_kernels.vocabulary_gradient
    gpu_kernels.launch(kernel, grid, arguments, built_for, OPTIONS)
    return losses.sum(), is_right.sum(), gpu_sums.of_rows(sums[None], sums.dtype)


def loss_constants(num_words: int, dtype: torch.dtype) -> dict[str, int]:
    """What the kernel there is built for; a group of words is what a thread can read at once."""
    group = 16 // dtype.itemsize
    num_turns = -(-num_words // (LANES["LANES"] * group))
    return {"WORDS": num_words, **LANES, "GROUP": group, "TURNS": 1 << (num_turns - 1).bit_length()}


def _scored(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[tuple[Tensor, Tensor, Tensor], Tensor]:
    """Of each row its loss, and what the way back asks for, (m,); and whether it is right."""
    from bertsmith.model import vocabulary_kernels

    num_rows, num_words = logits.shape
    losses, highests, log_sums = logits.new_empty((3, num_rows), dtype=torch.float32).unbind()
    is_right = logits.new_empty(num_rows, dtype=torch.int32)
    arguments = (logits, bias, targets, losses, highests, log_sums, is_right)
    built_for = loss_constants(num_words, logits.dtype)
    kernel = vocabulary_kernels.vocabulary_losses
    gpu_kernels.launch(kernel, (num_rows, 1, 1), arguments, built_for, OPTIONS)
    return (losses, highests, log_sums), is_right
