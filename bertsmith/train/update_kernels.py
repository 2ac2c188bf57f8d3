"""Adam and a gradient's norm in Triton: one pass over memory each.

The arithmetic is that of `updates`, in float32. Each program adds up its own squares in their
order, so every run gives the same bits; the caller adds up what few programs left.

Legend: E elements of a run, `num_lines` times LINE and REST more; P programs; BLOCK elements of a
program at a time.
"""

from __future__ import annotations

import triton
import triton.language as tl

LINE = 16
"""Elements that are read at once, or a part of them."""
_LINE = tl.constexpr(LINE)
_TINY = tl.constexpr(1.1754943508222875e-38)  # the smallest normal number of float32


@triton.jit
def _elements(num_lines, REST: tl.constexpr):
    """E, of which the compiler knows whether whole lines end with it: only then it reads such."""
    return num_lines.to(tl.int64) * _LINE + REST


@triton.jit(do_not_specialize=["num_lines"])
def squares(gradient, sums, num_lines, REST: tl.constexpr, BLOCK: tl.constexpr):
    """Sums of the squares of a gradient (E,), one of each program, (P,) float32."""
    num_elements = _elements(num_lines, REST)
    total = tl.zeros([BLOCK], tl.float32)
    first = tl.program_id(0).to(tl.int64) * BLOCK
    for start in range(first, num_elements, tl.num_programs(0) * BLOCK):
        places = start + tl.arange(0, BLOCK)
        value = tl.load(gradient + places, mask=places < num_elements, other=0.0).to(tl.float32)
        total += value * value
    tl.store(sums + tl.program_id(0), tl.sum(total, 0))


@triton.jit
def _without_subnormal(moment):
    """Zero in place of subnormal numbers, as everywhere."""
    return tl.where(tl.abs(moment) < _TINY, 0.0, moment)


@triton.jit(do_not_specialize=["num_lines"])
def adam(
    weight,
    exp_avg,
    exp_avg_sq,
    copy,
    gradient,
    factor,
    num_lines,
    learning_rate,
    weight_decay,
    beta1,
    new1,
    beta2,
    new2,
    epsilon,
    correction1,
    correction2,
    REST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Moments and weights (E,) float32 in place, and the rounded `copy`, if there is one.

    `factor`: a number in memory that the gradient is multiplied by. Rates: `updates.Rates`.
    """
    places = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    is_real = places < _elements(num_lines, REST)
    scaled = tl.load(gradient + places, mask=is_real, other=0.0).to(tl.float32) * tl.load(factor)
    first = tl.load(exp_avg + places, mask=is_real, other=0.0)
    first = _without_subnormal(beta1 * first + new1 * scaled)
    second = tl.load(exp_avg_sq + places, mask=is_real, other=0.0)
    second = _without_subnormal(beta2 * second + new2 * scaled * scaled)
    old = tl.load(weight + places, mask=is_real, other=0.0)
    root = tl.sqrt(second) * correction2 + epsilon
    direction = first * correction1 / root + weight_decay * old
    new = old - learning_rate * direction
    tl.store(exp_avg + places, first, mask=is_real)
    tl.store(exp_avg_sq + places, second, mask=is_real)
    tl.store(weight + places, new, mask=is_real)
    if copy is not None:
        tl.store(copy + places, new.to(copy.dtype.element_ty), mask=is_real)
