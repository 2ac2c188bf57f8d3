"""Products of a layer's feed-forward part with GELU in them, on Hopper GPUs, without autograd.

The kernels are those of `product_kernels`, for the two products between which GELU stands alone:
the one before it there, and the one before its slope on the way back. The definition is a product
and `gelu_kernels`, which remain for other GPUs and for few rows.

Differs: a gradient that goes through GELU is rounded once, behind the slope, and not before it too.

Legend: R rows, H hidden size, F feed-forward size, P row tiles.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.gpu_kernels import Tiled
from bertsmith.model import gpu_sums

CAPABILITY = (9, 0)
"""Of Hopper, and no other: tiles are made for its units, and others were not measured."""
FEWEST_ROWS = 4096
"""Below, torch divides its products otherwise, and launches take most of the time."""
UP_TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8}
UP_OPTIONS = {"num_warps": 8, "num_stages": 3}
UP_PROGRAMS = 2
"""That a multiprocessor has at a time: they share all tiles."""
BACK_TILE = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 64, "GROUP": 8}
BACK_OPTIONS = {"num_warps": 4, "num_stages": 3}
_HIDDEN_STEP, _WIDTH_STEP = 64, 128
"""What H and F are multiples of: whole tiles."""


def serves(device: torch.device) -> bool:
    """Whether there are kernels for it."""
    return (
        gpu_kernels.run_on(device)
        and torch.cuda.get_device_capability(device) == CAPABILITY  # what kernels run on has one
    )


def suits(rows: Tensor, weight: Tensor, *others: Tensor) -> bool:
    """Whether kernels are there for (R, H) `rows`, a weight of H x F, and what else they read."""
    num_rows, hidden = rows.shape
    read = (rows, weight, *others)
    return (
        num_rows >= FEWEST_ROWS
        and hidden % _HIDDEN_STEP == 0
        and weight.numel() // hidden % _WIDTH_STEP == 0
        and rows.dtype in (torch.bfloat16, torch.float16)
        and serves(rows.device)
        and all(each.dtype == rows.dtype and each.device == rows.device for each in read)
        and all(each.is_contiguous() for each in read)
        and all(each.data_ptr() % gpu_kernels.ALIGNED_BYTES == 0 for each in read)
    )


def up_and_gelu(states: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(R, H) states, (F, H) weight, (F,) bias -> what the map makes of them, and its GELU, (R, F).

    GELU is that of the rounded results.
    """
    from bertsmith.model import product_kernels

    num_rows, width = len(states), len(weight)
    inner, active = (states.new_empty((num_rows, width)) for _ in range(2))
    rows, columns, depth = (UP_TILE[each] for each in ("ROWS", "COLUMNS", "DEPTH"))
    arguments = (
        Tiled(states, (rows, depth)), Tiled(weight, (columns, depth)), bias,
        Tiled(inner, (rows, columns // 2)), Tiled(active, (rows, columns // 2)), num_rows,
    )  # fmt: skip
    num_tiles = -(-num_rows // rows) * (width // columns)
    grid = (min(num_tiles, UP_PROGRAMS * _num_processors(states.device)), 1, 1)
    constants = {"HIDDEN": states.shape[1], "WIDTH": width, **UP_TILE}
    gpu_kernels.launch(product_kernels.up_and_gelu, grid, arguments, constants, UP_OPTIONS)
    return inner, active


def down_backward(gradient: Tensor, weight: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """(R, H) gradient of the map down, (H, F) weight, (R, F) arguments of GELU -> their gradient.

    And (F,) its sum over the rows.
    """
    from bertsmith.model import product_kernels

    num_rows, width = inner.shape
    grad_inner = torch.empty_like(inner)
    rows, columns, depth = (BACK_TILE[each] for each in ("ROWS", "COLUMNS", "DEPTH"))
    num_row_tiles = -(-num_rows // rows)
    totals = inner.new_empty((num_row_tiles, width), dtype=torch.float32)  # (P, F)
    arguments = (
        Tiled(gradient, (rows, depth)), Tiled(weight, (depth, columns)),
        Tiled(inner, (rows, columns)), Tiled(grad_inner, (rows, columns)), totals, num_rows,
    )  # fmt: skip
    grid = (num_row_tiles * (width // columns), 1, 1)
    constants = {"HIDDEN": gradient.shape[1], "WIDTH": width, **BACK_TILE}
    gpu_kernels.launch(product_kernels.down_backward, grid, arguments, constants, BACK_OPTIONS)
    return grad_inner, gpu_sums.of_rows(totals, inner.dtype)


@functools.cache
def _num_processors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count
