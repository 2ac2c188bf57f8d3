"""The recurrence of an LSTM on a CPU, one call forward and one back.

The functions of `cpu_recurrence.cpp` go through all places by themselves: the matrices are laid out
once for their products, and nothing returns to Python between a place and the next. `recurrence`
is the definition, and takes what these do not: other devices and types, autocast, narrow vectors,
and a machine without a compiler.

Legend: T rows, P rows that have a place, F cells, H width of a state.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.native import call, has_fast_products, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")


class _Recurrence(ctypes.Structure):
    """`Recurrence` of the source."""

    _fields_ = (
        *pointers("across", "down"), *int64s("num_cells", "width"),
        *pointers("counts"), *int64s("num_places"),
    )  # fmt: skip


def suits(rows: Tensor, across: Tensor, down: Tensor | None) -> bool:
    """Whether the functions are there for these sums or gradients and these matrices, and pay."""
    matrices = [each for each in (across, down) if each is not None]
    return (
        takes(SOURCE, rows)
        and takes(SOURCE, *matrices)
        and all(each.dtype == torch.float32 for each in matrices)
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and has_fast_products(SOURCE, across)
    )


def read(
    sums: Tensor, across: Tensor, down: Tensor | None, counts: list[int], is_learning: bool
) -> tuple[Tensor, ...]:
    """(T, H) states; and where something is to be learned, (P, 4F) gates and (P, F) cells.

    `sums` (T, 4F), `across` (4F, H) and `down` (H, F).
    """
    num_cells = _num_cells(across, down)
    assert sums.shape[1] == len(across)
    assert len(sums) >= sum(counts)
    sums = sums.contiguous()
    states = across.new_zeros(len(sums), across.shape[1])
    num_kept = sum(counts) if is_learning else counts[0]
    gates, cells = (across.new_empty(num_kept, each) for each in (4 * num_cells, num_cells))
    told = (*map(pointer, (sums, states, gates, cells)), ctypes.c_int(is_learning))
    _call("recurrence_forward", sums, (across, down), counts, told)
    return (states, gates, cells) if is_learning else (states,)


def read_back(
    grad_states: Tensor,
    gates: Tensor,
    cells: Tensor,
    across: Tensor,
    down: Tensor | None,
    counts: list[int],
) -> tuple[Tensor, Tensor]:
    """(T, H) gradients of states -> (T, 4F) gradients of sums, and (P, F) what the cells showed.

    What later places add to the gradients of states is added to them.
    """
    grad_sums = across.new_zeros(len(grad_states), len(across))  # (T, 4F)
    shown = torch.empty_like(cells)  # (P, F)
    told = map(pointer, (gates, cells, grad_states, grad_sums, shown))
    _call("recurrence_backward", grad_states, (across, down), counts, tuple(told))
    return grad_sums, shown


def _num_cells(across: Tensor, down: Tensor | None) -> int:
    """F, of matrices that fit one another."""
    num_cells, width = len(across) // 4, across.shape[1]
    assert len(across) == 4 * num_cells
    assert (width == num_cells) if down is None else (down.shape == (width, num_cells))
    return num_cells


def _call(
    name: str,
    rows: Tensor,
    matrices: tuple[Tensor, Tensor | None],
    counts: list[int],
    told: tuple[object, ...],
) -> None:
    """Calls the function for rows of their type."""
    across, down = (None if each is None else each.contiguous() for each in matrices)
    assert across is not None
    counted = (ctypes.c_int64 * len(counts))(*counts)
    recurrence = _Recurrence(
        across=pointer(across),
        down=pointer(down),
        num_cells=_num_cells(across, down),
        width=across.shape[1],
        counts=ctypes.cast(counted, ctypes.c_void_p),
        num_places=len(counts),
    )
    call(SOURCE, name, rows, ctypes.byref(recurrence), *told)
