"""What happens between the matrix multiplications, each as one fused pass over memory.

Every function here is its own plain definition; `fused` only compiles it. What a norm is part of
is also there in C++, for a CPU (`cpu_norm`), and so are GELU (`cpu_gelu`) and dropout alone
(`cpu_dropout`). Arithmetic is done in at least float32 whatever the dtype of the rows. It knows no
weights and no layers.

Legend: T tokens, H hidden size, F feed-forward size.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.fusion import fused
from bertsmith.model import cpu_dropout, cpu_gelu, cpu_norm
from bertsmith.model.config import Activation
from bertsmith.model.dropout import dropped


def activate(inner: Tensor, activation: Activation) -> Tensor:
    """The feed-forward activation on (T, F) rows."""
    activated: Tensor = _ACTIVATIONS[activation](inner)
    return activated


def add_and_norm(
    output: Tensor, residual: Tensor, words: Tensor | None, probability: float, norm: nn.LayerNorm
) -> Tensor:
    """LayerNorm(residual + dropout(output)) on (T, H) rows, in the dtype of `output`."""
    if cpu_norm.suits(output, residual, norm):
        return cpu_norm.add_and_norm(output, residual, words, probability, norm)
    return _add_and_norm(output, residual, words, probability, norm.weight, norm.bias, norm.eps)


def norm_and_drop(
    rows: Tensor, words: Tensor | None, probability: float, norm: nn.LayerNorm
) -> Tensor:
    """dropout(LayerNorm(rows)) on (T, H) rows: the embedding's order, the reverse of a layer's."""
    if cpu_norm.suits(rows, None, norm):
        return cpu_norm.norm_and_drop(rows, words, probability, norm)
    # Two kernels: in one, torch 2.13 draws another mask for the gradients of the norm's weights.
    return drop(_norm(rows, norm.weight, norm.bias, norm.eps), words, probability)


def drop(rows: Tensor, words: Tensor | None, probability: float) -> Tensor:
    """Dropout on (T, H) rows; the rows themselves when `words` is None or the probability is 0."""
    if words is None or probability == 0.0:
        return rows
    if cpu_dropout.suits(rows, words):
        return cpu_dropout.drop(rows, words, probability)
    return _dropped(rows, words, probability)


def widened(rows: Tensor) -> Tensor:
    """The rows in the dtype that sums are made in: float32, or float64 where they have it."""
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


@fused
def _add_and_norm(
    output: Tensor,
    residual: Tensor,
    words: Tensor | None,
    probability: float,
    weight: Tensor,
    bias: Tensor,
    eps: float,
) -> Tensor:
    total = widened(residual) + dropped(widened(output), words, probability)
    return functional.layer_norm(total, weight.shape, widened(weight), widened(bias), eps).to(
        output.dtype
    )


@fused
def _norm(rows: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return functional.layer_norm(
        widened(rows), weight.shape, widened(weight), widened(bias), eps
    ).to(rows.dtype)


@fused
def _dropped(rows: Tensor, words: Tensor, probability: float) -> Tensor:
    return dropped(widened(rows), words, probability).to(rows.dtype)


# One pass over memory each, in float32 inside. On a CPU torch's GELU, forward and backward, takes
# two thirds of the time of a compiled one, and ours of bfloat16 two thirds of torch's.
_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "gelu": cpu_gelu.gelu,
    "gelu_tanh": functools.partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}
