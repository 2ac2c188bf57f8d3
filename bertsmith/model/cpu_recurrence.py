"""The recurrence of an LSTM on a CPU, one call forward and one back.

The functions of `cpu_recurrence.cpp` go through all places by themselves: the matrices are laid out
once for their products, and nothing returns to Python between a place and the next. `recurrence`
is the definition, and takes what these do not: other devices, float64, and a machine without a
compiler.

Legend: T rows, F cells, H width of a state.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.native import call, has_fast_products, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")


class _Recurrence(ctypes.Structure):
    """`Recurrence` of the source."""

    _fields_ = (
        ("across", ctypes.c_void_p),
        ("down", ctypes.c_void_p),
        ("num_cells", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("counts", ctypes.c_void_p),
        ("num_places", ctypes.c_int64),
    )


def suits(across: Tensor, down: Tensor | None) -> bool:
    """Whether the functions are there for these widened matrices, and pay."""
    return takes(SOURCE, across, *([] if down is None else [down])) and has_fast_products(
        SOURCE, across
    )


def read(
    sums: Tensor, across: Tensor, down: Tensor | None, counts: list[int], is_learning: bool
) -> tuple[Tensor, ...]:
    """(T, H) states; and where something is to be learned, (T, 4F) gates and (T, F) cells.

    `across` (4F, H) and `down` (H, F).
    """
    num_cells, width = len(across) // 4, across.shape[1]
    states = across.new_zeros(len(sums), width)
    num_kept = sum(counts) if is_learning else counts[0]
    gates, cells = (across.new_empty(num_kept, each) for each in (4 * num_cells, num_cells))
    wide = sums.float().contiguous()
    _call("forward", across, down, (num_cells, width), counts, wide, states, gates, cells)
    return (states, gates, cells) if is_learning else (states,)


def read_back(
    grad_states: Tensor,
    gates: Tensor,
    cells: Tensor,
    across: Tensor,
    down: Tensor | None,
    counts: list[int],
) -> tuple[Tensor, Tensor]:
    """(T, H) gradients of states -> (T, 4F) gradients of sums, and (T, F) what the cells showed.

    What later places add to the gradients of states is added to them.
    """
    sizes = cells.shape[1], across.shape[1]
    grad_sums = across.new_zeros(len(grad_states), len(across))
    shown = torch.empty_like(cells)
    across, down = across.t(), None if down is None else down.t()
    _call("backward", across, down, sizes, counts, gates, cells, grad_states, grad_sums, shown)
    return grad_sums, shown


def _call(
    way: str,
    across: Tensor,
    down: Tensor | None,
    sizes: tuple[int, int],
    counts: list[int],
    *tensors: Tensor,
) -> None:
    """Of both matrices a row is a column of their product; `sizes`: F and H.

    Where something is learned, there are as many cells as tokens.
    """
    across, down = across.contiguous(), None if down is None else down.contiguous()
    counted = torch.tensor(counts)
    recurrence = _Recurrence(pointer(across), pointer(down), *sizes, pointer(counted), len(counts))
    told = ctypes.byref(recurrence), *map(pointer, tensors)
    if way == "forward":
        told = *told, ctypes.c_int(len(tensors[-1]) == sum(counts))
    call(SOURCE, f"recurrence_{way}", across, *told)
