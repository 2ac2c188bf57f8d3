"""LayerNorm on a GPU with what stands before or behind it, there and back, without autograd.

The kernels are those of `norm_kernels`; the definition is that of `elementwise` and `embeddings`.

Legend: T rows, H hidden size, P programs that share the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.gpu_kernels import Argument
from bertsmith.model import gpu_sums
from bertsmith.model.dropout import EMBEDDING_SITE, signed32, site_number

WIDEST = 2048
"""H at most: a tile of wider rows does not fit into a multiprocessor's registers."""
TILE = {"ROWS": 4}
OPTIONS = {"num_warps": 4}
BACKWARD_TILE = {"ROWS": 1}
_NUM_PROGRAMS = 1056
"""Eight for each of an H100's multiprocessors; more would leave more sums to add up."""


class Norm(NamedTuple):
    """What is kept of LayerNorm(residual + dropout(output)): its arguments, and (T,) figures."""

    output: Tensor
    residual: Tensor
    words: Tensor | None
    means: Tensor
    scales: Tensor
    """One over deviations."""


class Lookup(NamedTuple):
    """What is kept of dropout(LayerNorm(token + segment + position))."""

    totals: Tensor
    keys: Tensor | None
    means: Tensor
    scales: Tensor


def add_and_norm(
    output: Tensor,
    residual: Tensor,
    words: Tensor | None,
    weight_bias: Sequence[Tensor],
    probability: float,
    epsilon: float,
) -> tuple[Tensor, Norm]:
    """`elementwise.add_and_norm` of (T, H) rows, with what its way back asks for."""
    from bertsmith.model import norm_kernels

    words = words if _bar(probability) else None
    rate = _rate(words, probability)
    states, means, scales = _room(output)
    arguments = (
        output, residual, words, *weight_bias, states, means, scales,
        len(output), epsilon, _gain(rate),
    )  # fmt: skip
    _there(norm_kernels.add_and_norm, arguments, states, rate)
    return states, Norm(output, residual, words, means, scales)


def add_and_norm_backward(
    gradient: Tensor, norm: Norm, weight: Tensor, probability: float
) -> tuple[Tensor, Tensor, list[Tensor], Tensor]:
    """Gradients (T, H) of output and residual, of weight and bias, and of the output's bias.

    Without dropout the first two are one tensor.
    """
    from bertsmith.model import norm_kernels

    grad_residual = torch.empty_like(gradient)
    grad_output = grad_residual if norm.words is None else torch.empty_like(gradient)
    sums, rate = _room_for_sums(3, gradient), _rate(norm.words, probability)
    arguments = (
        gradient, norm.output, norm.residual, norm.words, weight, norm.means, norm.scales,
        grad_output, grad_residual, sums, len(gradient), _gain(rate),
    )  # fmt: skip
    _back(norm_kernels.add_and_norm_backward, arguments, sums, rate)
    of_norm, of_output = gpu_sums.of_rows(sums[:2], weight.dtype), sums[2]
    of_bias = gpu_sums.of_rows(of_output, gradient.dtype)
    return grad_output, grad_residual, list(of_norm.unbind()), of_bias


def embed_and_norm(
    ids: Sequence[Tensor],
    tables: Sequence[Tensor],
    keys: Tensor | None,
    weight_bias: Sequence[Tensor],
    probability: float,
    epsilon: float,
) -> tuple[Tensor, Lookup]:
    """Of (T,) token, segment and position ids and their tables: (T, H) first hidden states.

    An id that its table does not have gives no numbers (NaN).
    """
    from bertsmith.model import norm_kernels

    num_rows, width = len(ids[0]), tables[0].shape[1]
    keys = keys if _bar(probability) else None
    totals = tables[0].new_empty((num_rows, width))  # (T, H)
    states, means, scales = _room(totals)
    rate = _rate(keys, probability)
    arguments = (
        states, *ids, *tables, *map(len, tables), keys, *weight_bias, totals, means, scales,
        num_rows, _site(), epsilon, _gain(rate),
    )  # fmt: skip
    _there(norm_kernels.embed_and_norm, arguments, states, rate)
    return states, Lookup(totals, keys, means, scales)


def embed_and_norm_backward(
    gradient: Tensor, lookup: Lookup, weight: Tensor, probability: float
) -> tuple[Tensor, list[Tensor]]:
    """The gradient of the looked-up rows' sum, (T, H) float32, and those of weight and bias."""
    from bertsmith.model import norm_kernels

    grad_totals = torch.empty_like(gradient, dtype=torch.float32)
    sums, rate = _room_for_sums(2, gradient), _rate(lookup.keys, probability)
    arguments = (
        gradient, lookup.totals, lookup.keys, weight, lookup.means, lookup.scales,
        grad_totals, sums, len(gradient), _site(), _gain(rate),
    )  # fmt: skip
    _back(norm_kernels.embed_and_norm_backward, arguments, sums, rate)
    return grad_totals, list(gpu_sums.of_rows(sums, weight.dtype).unbind())


def constants(width: int, probability: float) -> dict[str, int]:
    """What a norm's kernel is built for: another kernel for each."""
    span = 1 << (width - 1).bit_length()
    return {"BAR": _bar(probability), "WIDTH": width, "SPAN": span}


def backward_options(width: int) -> dict[str, int]:
    """A warp for each 1,024 columns of a tile: so many fit into its registers, sums among them."""
    return {"num_warps": max(1, constants(width, 0.0)["SPAN"] // 1024)}


def _bar(probability: float) -> int:
    """31-bit draws below it are dropped; zero for a rate so small that none is."""
    return int(probability * 2**31)


def _room(output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """For states, means and scales."""
    means, scales = (output.new_empty(len(output), dtype=torch.float32) for _ in range(2))
    return torch.empty_like(output), means, scales


def _room_for_sums(count: int, gradient: Tensor) -> Tensor:
    """(count, P, H)."""
    num_programs = min(_NUM_PROGRAMS, -(-len(gradient) // BACKWARD_TILE["ROWS"]))
    return gradient.new_empty((count, num_programs, gradient.shape[1]), dtype=torch.float32)


def _there(kernel: Any, arguments: Sequence[Argument], states: Tensor, rate: float) -> None:
    """Runs a kernel over tiles of the rows of `states`."""
    grid = (-(-len(states) // TILE["ROWS"]), 1, 1)
    built_for = {**constants(states.shape[1], rate), **TILE}
    gpu_kernels.launch(kernel, grid, arguments, built_for, OPTIONS)


def _back(kernel: Any, arguments: Sequence[Argument], sums: Tensor, rate: float) -> None:
    """Runs a kernel whose programs each leave (H,) sums."""
    _, num_programs, width = sums.shape
    built_for = {**constants(width, rate), **BACKWARD_TILE}
    gpu_kernels.launch(kernel, (num_programs, 1, 1), arguments, built_for, backward_options(width))


def _rate(drawn_from: Tensor | None, probability: float) -> float:
    """Of dropout: zero where there is nothing that it is drawn from."""
    return 0.0 if drawn_from is None else probability


def _gain(rate: float) -> float:
    return 1.0 / (1.0 - rate)


def _site() -> int:
    return signed32(site_number(0, EMBEDDING_SITE))
