"""GELU in Triton, there and back: one pass over memory, in which a bias's gradient is summed too.

Each program adds up its own rows in their order, so every run gives the same bits; the caller adds
up the programs' few sums. The normal distribution function is a polynomial, off by 7.5e-8 at most:
the library's error function chooses between two for every number, in twice the instructions.

Source: Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 26.2.17.

Legend: T rows; WIDTH columns; ROWS and COLUMNS of a tile; P programs that share the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

_BELL = tl.constexpr(-0.7213475204444817)  # -log2(e) / 2
_PEAK = tl.constexpr(-1.3257480647361592)  # log2(1 / sqrt(2 pi))


@triton.jit
def share_and_density(value):
    """The normal distribution's share below a value, and its density there."""
    density = tl.exp2(value * value * _BELL + _PEAK)
    far = tl.abs(value) * 0.2316419 + 1.0
    near = tl.rsqrt(far * far)  # 1 / far; a division minds the smallest numbers, a third of it all
    tail = ((1.330274429 * near - 1.821255978) * near + 1.781477937) * near - 0.356563782
    tail = (tail * near + 0.319381530) * near * density
    return tl.where(value < 0.0, tail, 1.0 - tail), density


@triton.jit(do_not_specialize=["num_rows"])
def gelu(inner, active, num_rows, WIDTH: tl.constexpr, VALUES: tl.constexpr):
    """Of (T, WIDTH) numbers `inner`, the same of `active`: VALUES of them a program."""
    cells = tl.program_id(0).to(tl.int64) * VALUES + tl.arange(0, VALUES)
    is_real = cells < num_rows.to(tl.int64) * WIDTH
    value = tl.load(inner + cells, mask=is_real, other=0.0).to(tl.float32)
    share, _ = share_and_density(value)
    tl.store(active + cells, (value * share).to(active.dtype.element_ty), mask=is_real)


@triton.jit(do_not_specialize=["num_rows"])
def gelu_backward(
    inner, gradient, sums, num_rows, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The gradient (T, WIDTH) of GELU's results -> that of its arguments `inner`, in place.

    And each program's sums over its rows, (P, WIDTH) float32. A program is (rows, columns).
    """
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < WIDTH
    total = tl.zeros([ROWS, COLUMNS], tl.float32)
    for first in range(tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS):
        rows = first + tl.arange(0, ROWS)
        is_real = (rows < num_rows)[:, None] & is_column[None, :]
        cells = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        value = tl.load(inner + cells, mask=is_real, other=0.0).to(tl.float32)
        grad = tl.load(gradient + cells, mask=is_real, other=0.0).to(tl.float32)
        share, density = share_and_density(value)
        grad = grad * (share + value * density)
        tl.store(gradient + cells, grad.to(gradient.dtype.element_ty), mask=is_real)
        total += grad
    tl.store(sums + tl.program_id(0) * WIDTH + columns, tl.sum(total, 0), mask=is_column)
