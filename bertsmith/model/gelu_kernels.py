"""GELU's way back in Triton: one pass over memory, in which a bias's gradient is summed too.

Each program adds up its own rows in their order, so every run gives the same bits; the caller adds
up what few programs left.

Legend: T rows; WIDTH columns; ROWS and COLUMNS of a tile; P programs that share the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

_ROOT_HALF = tl.constexpr(0.7071067811865476)
_NORMAL = tl.constexpr(0.3989422804014327)  # 1 / sqrt(2 pi)


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
        below = 0.5 * (1.0 + tl.erf(value * _ROOT_HALF))
        grad = grad * (below + value * _NORMAL * tl.exp(-0.5 * value * value))
        tl.store(gradient + cells, grad.to(gradient.dtype.element_ty), mask=is_real)
        total += grad
    tl.store(sums + tl.program_id(0) * WIDTH + columns, tl.sum(total, 0), mask=is_column)
