"""GELU's way back in Triton: one pass over memory, in which a bias's gradient is summed too.

Each program adds up its own rows in their order, so every run gives the same bits; the caller adds
up what few programs left. The error function is a polynomial, 1.5e-7 from it at most: the library's
chooses between two for every number, and takes longer than memory does.

Source: Abramowitz and Stegun 1964, Handbook of Mathematical Functions, 7.1.26.

Legend: T rows; WIDTH columns; ROWS and COLUMNS of a tile; P programs that share the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

_NORMAL = tl.constexpr(0.3989422804014327)  # 1 / sqrt(2 pi)
_BELL = tl.constexpr(-0.7213475204444817)  # -log2(e) / 2
_NEAR = tl.constexpr(0.23164188)  # 0.3275911 / sqrt(2)


@triton.jit
def _slope(value):
    """GELU's: the normal distribution's share below a value, and value times its density."""
    bell = tl.exp2(value * value * _BELL)
    near = 1.0 / (tl.abs(value) * _NEAR + 1.0)
    tail = ((1.061405429 * near - 1.453152027) * near + 1.421413741) * near - 0.284496736
    tail = 0.5 * bell * (tail * near + 0.254829592) * near
    return tl.where(value < 0.0, tail, 1.0 - tail) + value * _NORMAL * bell


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
        grad = grad * _slope(value)
        tl.store(gradient + cells, grad.to(gradient.dtype.element_ty), mask=is_real)
        total += grad
    tl.store(sums + tl.program_id(0) * WIDTH + columns, tl.sum(total, 0), mask=is_column)
