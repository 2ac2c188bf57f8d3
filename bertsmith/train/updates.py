"""Flat weights, moments and gradients -> new weights and moments: the arithmetic of the optimizers.

Each function is its own definition; `fused` turns it into one pass over memory where a compiler is
at hand. Everything happens in the weights' own type (float32 or float64); a half-precision copy is
refreshed in the same pass. It knows no parameters, no names and no schedule.

Source: Kingma and Ba 2015 (Adam); google-research/bert optimization.py, AdamWeightDecayOptimizer;
You et al. 2020 (LAMB), algorithm 2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from bertsmith import fusion
from bertsmith.fusion import fused
from bertsmith.train import cpu_updates
from bertsmith.train.cpu_updates import Sleepers
from bertsmith.train.gradient import Gradient

CHUNK_ELEMENTS = 2**16
"""Stays in a core's cache between the passes of the kernel without a compiler."""


Scalar = float | Tensor


class Rates(NamedTuple):
    """The numbers of one update, as they are, or as scalar tensors where the weights are."""

    gradient_factor: Tensor
    """Clipping and loss scale in one factor on every gradient; always a tensor."""
    learning_rate: Scalar
    weight_decay: Scalar
    """0 for LayerNorm and biases."""
    beta1: Scalar
    new1: Scalar
    """1 - beta1."""
    beta2: Scalar
    new2: Scalar
    """1 - beta2."""
    epsilon: Scalar
    correction1: Scalar
    """1 / (1 - beta1^t), or 1 without bias correction."""
    correction2: Scalar
    """1 / sqrt(1 - beta2^t), or 1 without bias correction."""

    def as_tensors(self) -> Rates:
        """As compiled functions take them, which would else be built for each value."""
        factor, *numbers = self
        # Filled on the device, not copied to it: a copy would wait for the device.
        return Rates(factor, *(factor.new_full((), float(each)) for each in numbers))


class Flat(NamedTuple):
    """One run of parameters, laid end to end; all (E,) and of one length."""

    weight: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    copy: Tensor | None
    """The half-precision weights that the model computes with; None when `weight` itself is."""


def squared_norm(gradient: Gradient, sleepers: Sleepers | None = None) -> Tensor:
    """Sum of squares, in float32 (float64 for float64), as a scalar tensor.

    `sleepers`: which blocks of the run have had a gradient, brought up to date here.
    """
    if cpu_updates.suits(gradient):
        return cpu_updates.squared_norm(gradient, sleepers)
    if sleepers is not None:
        sleepers.awake.fill_(1)
    if not _lacks_compiler(gradient.whole):
        return squared_norm_in_one_pass(gradient.whole)
    chunks = torch.split(gradient.whole, CHUNK_ELEMENTS)
    return torch.stack([squared_norm_in_one_pass(chunk) for chunk in chunks]).sum()


@fused
def squared_norm_in_one_pass(gradient: Tensor) -> Tensor:
    """The definition of `squared_norm`."""
    wide = torch.promote_types(gradient.dtype, torch.float32)
    return gradient.to(wide).square().sum()


def adam(flat: Flat, gradient: Gradient, rates: Rates, sleepers: Sleepers | None = None) -> None:
    """Moments, decoupled decay, weights and their half-precision copy, in place.

    In one pass where there is a compiler; on a CPU without one, through torch's own AdamW kernel.
    `sleepers` as of `squared_norm`. Where those sleep the copy is as it should be, and `weight`
    when they have settled.
    """
    if cpu_updates.suits(gradient, flat):
        cpu_updates.adam(flat, gradient, rates, sleepers)
        return
    if sleepers is not None:
        sleepers.settle(flat)
    if _lacks_compiler(gradient.whole):
        _adam_without_compiler(flat, gradient.whole, rates.as_tensors())
    else:
        adam_in_one_pass(flat, gradient.whole, rates.as_tensors())


@fused
def adam_in_one_pass(flat: Flat, gradient: Tensor, rates: Rates) -> None:
    """The definition of `adam`."""
    exp_avg, exp_avg_sq, direction = _direction(flat, gradient, rates)
    weight = flat.weight - rates.learning_rate * direction
    flat.exp_avg.copy_(exp_avg)
    flat.exp_avg_sq.copy_(exp_avg_sq)
    flat.weight.copy_(weight)
    if flat.copy is not None:
        flat.copy.copy_(weight)


@fused
def lamb_direction(flat: Flat, gradient: Tensor, rates: Rates) -> Tensor:
    """Updates the moments in place and returns Adam's direction, decay included, unscaled."""
    exp_avg, exp_avg_sq, direction = _direction(flat, gradient, rates)
    flat.exp_avg.copy_(exp_avg)
    flat.exp_avg_sq.copy_(exp_avg_sq)
    return direction


def lamb(flat: Flat, gradient: Gradient, rates: Rates, sizes: list[int]) -> None:
    """Like `adam`, with each tensor's rate multiplied by norm(weight) / norm(direction).

    `sizes` are the elements of each tensor in the run. A tensor of zeros, and one with a direction
    of zeros, keeps the ratio 1.
    """
    direction = lamb_direction(flat, gradient.whole, rates.as_tensors())
    directions = list(torch.split(direction, sizes))
    weight_norms = torch.stack(torch._foreach_norm(list(torch.split(flat.weight, sizes))))
    direction_norms = torch.stack(torch._foreach_norm(directions))
    ratios = torch.where(
        (weight_norms > 0) & (direction_norms > 0), weight_norms / direction_norms, 1.0
    )
    torch._foreach_mul_(directions, list((ratios * rates.learning_rate).unbind()))
    flat.weight.sub_(direction)
    if flat.copy is not None:
        flat.copy.copy_(flat.weight)


def _lacks_compiler(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu" and not fusion.is_fusing("cpu")


def _adam_without_compiler(flat: Flat, gradient: Tensor, rates: Rates) -> None:
    # torch's kernel corrects by 1 - beta^t. A t beyond every memory makes that 1, and this step's
    # own corrections move into its rate, epsilon and decay: the same numbers in exact arithmetic.
    endless = torch.tensor(1e9)
    ratio = float(rates.correction1 / rates.correction2)
    for start in range(0, gradient.numel(), CHUNK_ELEMENTS):
        rows = slice(start, start + CHUNK_ELEMENTS)
        weight = flat.weight[rows]
        torch._fused_adamw_(
            [weight],
            [gradient[rows].to(weight.dtype) * rates.gradient_factor],
            [flat.exp_avg[rows]],
            [flat.exp_avg_sq[rows]],
            [],
            [endless],
            lr=float(rates.learning_rate) * ratio,
            beta1=float(rates.beta1),
            beta2=float(rates.beta2),
            weight_decay=float(rates.weight_decay) / ratio,
            eps=float(rates.epsilon / rates.correction2),
            amsgrad=False,
            maximize=False,
        )
        for moment in (flat.exp_avg[rows], flat.exp_avg_sq[rows]):
            _without_subnormal_(moment)
        if flat.copy is not None:
            flat.copy[rows] = weight


def _direction(flat: Flat, gradient: Tensor, rates: Rates) -> tuple[Tensor, Tensor, Tensor]:
    """New first and second moment, and m / (sqrt(v) + epsilon) + decay * weight."""
    scaled = gradient.to(flat.weight.dtype) * rates.gradient_factor
    exp_avg = _without_subnormal_(rates.beta1 * flat.exp_avg + rates.new1 * scaled)
    exp_avg_sq = rates.beta2 * flat.exp_avg_sq + rates.new2 * scaled * scaled
    exp_avg_sq = _without_subnormal_(exp_avg_sq)
    root = exp_avg_sq.sqrt() * rates.correction2 + rates.epsilon
    direction = exp_avg * rates.correction1 / root + rates.weight_decay * flat.weight
    return exp_avg, exp_avg_sq, direction


def _without_subnormal_(moment: Tensor) -> Tensor:
    """Sets subnormal numbers to 0, in place: nothing beside an epsilon of 1e-6, slow on a CPU."""
    return moment.masked_fill_(moment.abs() < torch.finfo(moment.dtype).tiny, 0.0)
