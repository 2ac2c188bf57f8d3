"""Adam and the gradient's norm on a CPU: weights that never had a gradient only decay.

The functions of `cpu_updates.cpp` give the numbers of `updates`, which stays the definition and
takes what these do not: other devices, float64, LAMB, and a machine without a compiler.

A gradient may be sparse: rows of a table, each once and in their order (coalesced), in one sparse
dimension of two. All other rows have none.

Legend: E elements of a run, B its blocks of `BLOCK`, R rows of a table, U looked up, H wide.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bertsmith.native import call, pointer, takes

if TYPE_CHECKING:
    from bertsmith.train.updates import Flat, Rates

SOURCE = Path(__file__).with_suffix(".cpp")
BLOCK = 256
"""Elements that wake together: that of the source."""


class _Rates(ctypes.Structure):
    """`Rates` of the source: the fields of `updates.Rates`, in their order."""

    _fields_ = tuple(
        (name, ctypes.c_float)
        for name in (
            "gradient_factor",
            "learning_rate",
            "weight_decay",
            "beta1",
            "new1",
            "beta2",
            "new2",
            "epsilon",
            "correction1",
            "correction2",
        )
    )


class _Flat(ctypes.Structure):
    """`Flat` of the source."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("exp_avg", ctypes.c_void_p),
        ("exp_avg_sq", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("awake", ctypes.c_void_p),
        ("count", ctypes.c_int64),
    )


class _Gradient(ctypes.Structure):
    """`Gradient` of the source."""

    _fields_ = (
        ("numbers", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("width", ctypes.c_int64),
    )


def suits(gradient: Tensor, flat: Flat | None = None) -> bool:
    """Whether the functions are there for this gradient, and for these weights."""
    return takes(SOURCE, _numbers(gradient)) and (
        flat is None
        or (
            flat.weight.dtype == torch.float32
            and (flat.copy is None or flat.copy.dtype == torch.bfloat16)
        )
    )


def asleep(num_elements: int) -> Tensor:
    """(B,) uint8: blocks that have had no gradient yet, and whose rows nobody has looked up."""
    return torch.zeros(-(-num_elements // BLOCK), dtype=torch.uint8)


def wake_(awake: Tensor, *moments: Tensor) -> None:
    """Says anew which blocks of (E,) moments have had a gradient: those with one that is not 0."""
    awake.zero_()
    for moment in moments:
        whole = len(moment) // BLOCK
        awake[:whole] |= (moment[: whole * BLOCK].view(whole, BLOCK) != 0).any(dim=1)
        if whole < len(awake):
            awake[whole] |= (moment[whole * BLOCK :] != 0).any()


def squared_norm(gradient: Tensor, awake: Tensor | None) -> Tensor:
    """Sum of squares of (E,), or sparse (R, H), as a float32 scalar; wakes who has a gradient."""
    numbers = _numbers(gradient)
    if gradient.is_sparse and awake is not None:
        _wake_rows_(awake, gradient)
        awake = None
    told = (pointer(numbers), ctypes.c_int64(numbers.numel()), pointer(awake))
    return torch.tensor(call(SOURCE, "squared_norm", numbers, *told))


def adam(flat: Flat, gradient: Tensor, rates: Rates, awake: Tensor | None) -> None:
    """Moments, decoupled decay, weights and their half-precision copy, in place."""
    there = _Flat(*map(pointer, (*flat, awake)), len(flat.weight))
    numbers, places, width = _numbers(gradient), None, 0
    if gradient.is_sparse:
        num_rows, width = gradient.shape
        (rows,) = gradient.indices()  # (U,)
        places = torch.full((num_rows,), -1, dtype=torch.int32)
        places[rows] = torch.arange(len(rows), dtype=torch.int32)
    arrived = _Gradient(pointer(numbers), pointer(places), width)
    told = _Rates(*map(float, rates))
    call(SOURCE, "adam", numbers, *map(ctypes.byref, (there, arrived, told)))


def _numbers(gradient: Tensor) -> Tensor:
    """(E,), or of a sparse gradient (U, H)."""
    return gradient.values().contiguous() if gradient.is_sparse else gradient


def _wake_rows_(awake: Tensor, gradient: Tensor) -> None:
    """Wakes every block that holds something of a looked-up row."""
    (rows,), width = gradient.indices(), gradient.shape[1]
    first, last = rows * width // BLOCK, ((rows + 1) * width - 1) // BLOCK  # (U,)
    for step in range(-(-width // BLOCK) + 1):
        awake[torch.minimum(first + step, last)] = 1
