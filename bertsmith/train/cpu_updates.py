"""Adam and the gradient's norm on a CPU: weights that never had a gradient only decay.

The functions of `cpu_updates.cpp` give the numbers of `updates`, which stays the definition and
takes what these do not: other devices, float64, LAMB, and a machine without a compiler.

Legend: E elements of a run, B its blocks of `BLOCK`.
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


def suits(gradient: Tensor, flat: Flat | None = None) -> bool:
    """Whether the functions are there for this gradient, and for these weights."""
    return takes(SOURCE, gradient) and (
        flat is None
        or (
            flat.weight.dtype == torch.float32
            and (flat.copy is None or flat.copy.dtype == torch.bfloat16)
        )
    )


def asleep(num_elements: int) -> Tensor:
    """(B,) uint8: blocks that have had no gradient yet."""
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
    """Sum of squares of (E,) as a float32 scalar; wakes blocks that have a gradient."""
    told = (pointer(gradient), ctypes.c_int64(len(gradient)), pointer(awake))
    return torch.tensor(call(SOURCE, "squared_norm", gradient, *told))


def adam(flat: Flat, gradient: Tensor, rates: Rates, awake: Tensor | None) -> None:
    """Moments, decoupled decay, weights and their half-precision copy, in place."""
    there = _Flat(*map(pointer, (*flat, awake)), len(gradient))
    told = _Rates(*map(float, rates))
    call(SOURCE, "adam", gradient, ctypes.byref(there), pointer(gradient), ctypes.byref(told))
