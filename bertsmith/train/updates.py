"""Flat weights, moments and gradients -> new weights and moments: the arithmetic of the optimizers.

Each function is its own definition; `fused` turns it into one pass over memory where torch.compile
serves, and `Updates` leaves to functions in C++ (`cpu_updates`) and kernels in Triton
(`gpu_updates`) what they take. Everything happens in the weights' own type (float32 or float64); a
half-precision copy is refreshed in the same pass. It knows no parameters, names or schedule.

Source: Kingma and Ba 2015 (Adam); google-research/bert optimization.py, AdamWeightDecayOptimizer;
You et al. 2020 (LAMB), algorithm 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from bertsmith.fusion import fused, is_eager_on_cpu
from bertsmith.train import cpu_updates, gpu_updates
from bertsmith.train.cpu_updates import NativeUpdates, Sleepers
from bertsmith.train.gradient import Gradient

CHUNK_ELEMENTS = 2**18
"""Stays in the caches between the passes of the kernel without a compiler. Of fewer elements the
calls take longer than they save."""


class Rates(NamedTuple):
    """The numbers of one update."""

    learning_rate: float
    weight_decay: float
    """0 for LayerNorm and biases."""
    beta1: float
    new1: float
    """1 - beta1."""
    beta2: float
    new2: float
    """1 - beta2."""
    epsilon: float
    correction1: float
    """1 / (1 - beta1^t), or 1 without bias correction."""
    correction2: float
    """1 / sqrt(1 - beta2^t), or 1 without bias correction."""


class TensorRates(NamedTuple):
    """`Rates` as scalar tensors where the weights are, in their type.

    Compiled functions would be built anew for each value of plain numbers.
    """

    gradient_factor: Tensor
    """Clipping and loss scale in one factor on every gradient."""
    learning_rate: Tensor
    weight_decay: Tensor
    beta1: Tensor
    new1: Tensor
    beta2: Tensor
    new2: Tensor
    epsilon: Tensor
    correction1: Tensor
    correction2: Tensor

    @staticmethod
    def of(rates: Rates, factor: Tensor) -> TensorRates:
        """On the factor's device, filled there: a copy would wait for the device."""
        return TensorRates(factor, *(factor.new_full((), each) for each in rates))


class Flat(NamedTuple):
    """One run of parameters, laid end to end; all (E,) and of one length."""

    weight: Tensor
    exp_avg: Tensor
    exp_avg_sq: Tensor
    copy: Tensor | None
    """The half-precision weights that the model computes with; None when `weight` itself is."""


class Update(NamedTuple):
    """What a run of parameters is to take."""

    flat: Flat
    gradient: Gradient
    rates: Rates
    sleepers: Sleepers | None = None
    """Which blocks of the run have had a gradient; None where nobody counts them."""
    sizes: Sequence[int] | None = None
    """The elements of each tensor of a run that takes LAMB's update; None for Adam's."""


class Updates:
    """Of all runs of one step: the norm of their gradients, and then what they are to take."""

    def __init__(self, updates: Sequence[Update]) -> None:
        ours: list[Update] = []
        self._others: list[Update] = []
        for each in updates:
            (ours if cpu_updates.suits(each) else self._others).append(each)
        self._native = NativeUpdates(ours) if ours else None
        self._device = updates[0].flat.weight.device

    def squared_norm(self) -> Tensor:
        """Sum of all gradients' squares, in float32 (float64 for float64), as a scalar tensor.

        On the first run's device. Sleepers that have a gradient wake.
        """
        squares = [_squared_norm(each) for each in self._others]
        if self._native is not None:
            squares.append(self._native.squared_norm())
        first, *others = (square.to(self._device) for square in squares)
        return torch.stack([first, *others]).sum() if others else first

    def take(self, factor: Tensor) -> None:
        """Moments, weights and their half-precision copies, in place; every gradient times that.

        Where somebody sleeps the copy is as it should be, and `weight` when they have settled.
        """
        if self._native is not None:
            self._native.adam(float(factor))
            for number, (flat, _, rates, _, sizes) in enumerate(self._native.of_lamb):
                assert sizes is not None
                direction = self._native.direction(number, float(factor))
                lamb_by(direction, flat, rates.learning_rate, sizes)
        known: dict[tuple[object, ...], TensorRates] = {}  # few, for many runs
        for flat, gradient, rates, sleepers, sizes in self._others:
            if sizes is None and gpu_updates.suits(flat.weight, gradient.whole):
                gpu_updates.adam(flat, gradient.whole, rates, factor)
                continue
            if sleepers is not None:
                sleepers.settle(flat)
            key = (flat.weight.device, flat.weight.dtype, rates)
            if key not in known:
                known[key] = TensorRates.of(rates, factor.to(flat.weight))
            if sizes is not None:
                lamb(flat, gradient, known[key], sizes)
            else:
                adam(flat, gradient, known[key])


def _squared_norm(update: Update) -> Tensor:
    """Of one run, by the definition; all of it is awake then."""
    gradient = update.gradient.whole
    if update.sleepers is not None:
        update.sleepers.awake.fill_(1)
    if gpu_updates.suits(update.flat.weight, gradient):
        return gpu_updates.squared_norm(gradient)
    if not is_eager_on_cpu(gradient):
        return squared_norm_in_one_pass(gradient)
    chunks = torch.split(gradient, CHUNK_ELEMENTS)
    return torch.stack([squared_norm_in_one_pass(chunk) for chunk in chunks]).sum()


@fused
def squared_norm_in_one_pass(gradient: Tensor) -> Tensor:
    """The definition of a gradient's."""
    wide = torch.promote_types(gradient.dtype, torch.float32)
    return gradient.to(wide).square().sum()


def adam(flat: Flat, gradient: Gradient, rates: TensorRates) -> None:
    """Moments, decoupled decay, weights and their half-precision copy, in place.

    In one pass where torch.compile serves; on other CPUs through torch's own AdamW kernel.
    """
    if is_eager_on_cpu(gradient.whole):
        _adam_without_compiler(flat, gradient.whole, rates)
    else:
        adam_in_one_pass(flat, gradient.whole, rates)


@fused
def adam_in_one_pass(flat: Flat, gradient: Tensor, rates: TensorRates) -> None:
    """The definition of `adam`."""
    exp_avg, exp_avg_sq, direction = _direction(flat, gradient, rates)
    weight = flat.weight - rates.learning_rate * direction
    flat.exp_avg.copy_(exp_avg)
    flat.exp_avg_sq.copy_(exp_avg_sq)
    flat.weight.copy_(weight)
    if flat.copy is not None:
        flat.copy.copy_(weight)


@fused
def lamb_direction(flat: Flat, gradient: Tensor, rates: TensorRates) -> Tensor:
    """Updates the moments in place and returns Adam's direction, decay included, unscaled."""
    exp_avg, exp_avg_sq, direction = _direction(flat, gradient, rates)
    flat.exp_avg.copy_(exp_avg)
    flat.exp_avg_sq.copy_(exp_avg_sq)
    return direction


def lamb(flat: Flat, gradient: Gradient, rates: TensorRates, sizes: Sequence[int]) -> None:
    """Like `adam`, with each tensor's rate multiplied by norm(weight) / norm(direction).

    `sizes` are the elements of each tensor in the run. A tensor of zeros, and one with a direction
    of zeros, keeps the ratio 1.
    """
    lamb_by(lamb_direction(flat, gradient.whole, rates), flat, rates.learning_rate, sizes)


def lamb_by(
    direction: Tensor, flat: Flat, learning_rate: Tensor | float, sizes: Sequence[int]
) -> None:
    """As `lamb`, along an (E,) direction, which is used up; the moments are as they should be."""
    directions, weights = (list(torch.split(each, [*sizes])) for each in (direction, flat.weight))
    weight_norms = torch.stack(torch._foreach_norm(weights))
    direction_norms = torch.stack(torch._foreach_norm(directions))
    ratios = torch.where(
        (weight_norms > 0) & (direction_norms > 0), weight_norms / direction_norms, 1.0
    )
    torch._foreach_mul_(directions, list((ratios * learning_rate).unbind()))
    flat.weight.sub_(direction)
    if flat.copy is not None:
        flat.copy.copy_(flat.weight)


def _adam_without_compiler(flat: Flat, gradient: Tensor, rates: TensorRates) -> None:
    # torch's kernel corrects by 1 - beta^t. A t beyond every memory makes that 1, and this step's
    # own corrections move into its rate, epsilon and decay: the same numbers in exact arithmetic.
    endless = torch.tensor(1e9)
    ratio = float(rates.correction1 / rates.correction2)
    limits = torch.finfo(flat.weight.dtype)
    largest_subnormal = limits.tiny * (1.0 - limits.eps)
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
        for moment in (flat.exp_avg[rows], flat.exp_avg_sq[rows]):  # `_without_subnormal_`, at once
            torch.hardshrink(moment, largest_subnormal, out=moment)
        if flat.copy is not None:
            flat.copy[rows] = weight


def _direction(flat: Flat, gradient: Tensor, rates: TensorRates) -> tuple[Tensor, Tensor, Tensor]:
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
