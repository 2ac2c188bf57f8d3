"""Adam and the gradient's norm on a CPU: weights that never had a gradient only decay.

The functions of `cpu_updates.cpp` give the numbers of `updates`, which stays the definition and
takes what these do not: other devices, float64, LAMB, and a machine without a compiler.

Where the model computes with a rounded copy, such weights decay when that shows: `Sleepers` knows
what they have missed, and whoever reads weights asks it to `settle` them first.

A gradient is taken in pieces, each where it lies: one of each parameter, or of each row of a table.

Legend: E elements of a run, B its blocks of `BLOCK`, P pieces, S steps that are remembered, R rows
of a table, U looked up, H wide.
"""

from __future__ import annotations

import ctypes
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from bertsmith.native import call, pointer, takes
from bertsmith.train.gradient import Gradient

if TYPE_CHECKING:
    from bertsmith.train.updates import Flat, Rates

SOURCE = Path(__file__).with_suffix(".cpp")
BLOCK = 256
"""Elements that wake together: that of `cpu_sleepers.h`."""
MOST_STEPS = 1024
"""Steps whose decays are remembered; after so many all weights take them."""
Pieces = npt.NDArray[np.int64]
"""(P, 3): `Piece` of the source."""
_ROUNDING = 2.0**-23
"""By what share of itself a weight may shrink beside its decay in a step."""


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


class _Sleepers(ctypes.Structure):
    """`Sleepers` of `cpu_sleepers.h`."""

    _fields_ = (
        ("awake", ctypes.c_void_p),
        ("taken", ctypes.c_void_p),
        ("due", ctypes.c_void_p),
        ("decays", ctypes.c_void_p),
        ("num_steps", ctypes.c_int64),
        ("decayed", ctypes.c_double),
    )


class _Flat(ctypes.Structure):
    """`Flat` of the source."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("exp_avg", ctypes.c_void_p),
        ("exp_avg_sq", ctypes.c_void_p),
        ("copy", ctypes.c_void_p),
        ("sleepers", ctypes.POINTER(_Sleepers)),
        ("count", ctypes.c_int64),
    )


class _Gradient(ctypes.Structure):
    """`Gradient` of the source."""

    _fields_ = (
        ("pieces", ctypes.c_void_p),
        ("num_pieces", ctypes.c_int64),
    )


def suits(gradient: Gradient, flat: Flat | None = None) -> bool:
    """Whether the functions are there for this gradient, and for these weights."""
    return takes(SOURCE, *gradient.numbers) and (
        flat is None
        or (
            flat.weight.dtype == torch.float32
            and (flat.copy is None or flat.copy.dtype == torch.bfloat16)
        )
    )


class Sleepers:
    """Which blocks of a run have had a gradient, and which decays the others have yet to take."""

    def __init__(self, num_elements: int) -> None:
        num_blocks = -(-num_elements // BLOCK)
        self.awake = torch.zeros(num_blocks, dtype=torch.uint8, device="cpu")
        """(B,): 1 for blocks that have had a gradient, or a row of which was looked up."""
        self._taken = torch.zeros(num_blocks, dtype=torch.int32, device="cpu")
        self._due = torch.zeros(num_blocks, dtype=torch.float64, device="cpu")
        self._decays = torch.zeros(MOST_STEPS, 2, device="cpu")  # (S, 2)
        self._num_steps, self._decayed = 0, 0.0

    def wake_by(self, *moments: Tensor) -> None:
        """Says anew who is awake: blocks of (E,) moments with one that is not 0."""
        self.awake.zero_()
        for moment in moments:
            whole = len(moment) // BLOCK
            self.awake[:whole] |= (moment[: whole * BLOCK].view(whole, BLOCK) != 0).any(dim=1)
            if whole < len(self.awake):
                self.awake[whole] |= (moment[whole * BLOCK :] != 0).any()

    def wake_rows(self, table: Tensor) -> None:
        """Wakes every block that holds something of a row of a sparse (R, H)."""
        rows, width, awake = table.indices()[0].numpy(), table.shape[1], self.awake.numpy()
        first, last = rows * width // BLOCK, ((rows + 1) * width - 1) // BLOCK  # (U,)
        for step in range(-(-width // BLOCK) + 1):
            awake[np.minimum(first + step, last)] = 1

    def settle(self, flat: Flat) -> None:
        """Gives all weights the decays that they have missed, before anybody sees or sets them."""
        if self._num_steps:
            call(SOURCE, "settle", flat.weight, ctypes.byref(_told_flat(flat, self)))
            self._taken.zero_()
            self._due.zero_()
            self._num_steps, self._decayed = 0, 0.0

    def remember(self, flat: Flat, rates: Rates) -> None:
        """Counts the step that comes now. The bits of a decay need its rates."""
        if self._num_steps == MOST_STEPS:
            self.settle(flat)
        learning_rate, weight_decay = float(rates.learning_rate), float(rates.weight_decay)
        self._decays.numpy()[self._num_steps] = learning_rate, weight_decay
        self._num_steps += 1
        share = learning_rate * weight_decay
        self._decayed += (
            share + _ROUNDING if share >= 0 else math.inf
        )  # below zero all weights grow

    def told(self) -> _Sleepers:
        """As the source is told it."""
        tensors = (self.awake, self._taken, self._due, self._decays)
        return _Sleepers(*map(pointer, tensors), self._num_steps, self._decayed)


def squared_norm(gradient: Gradient, sleepers: Sleepers | None) -> Tensor:
    """Sum of squares as a float32 scalar; wakes who has a gradient."""
    awake = None
    if sleepers is not None:
        if gradient.table is not None:
            sleepers.wake_rows(gradient.table)
        else:
            awake = sleepers.awake
    pieces = _end_to_end(gradient.numbers)
    told = (ctypes.byref(_told(pieces)), ctypes.c_int64(int(pieces[-1, -1])), pointer(awake))
    total = call(SOURCE, "squared_norm", gradient.numbers[0], *told)
    return torch.tensor(total, device="cpu")


def adam(flat: Flat, gradient: Gradient, rates: Rates, sleepers: Sleepers | None) -> None:
    """Moments, decoupled decay, weights and their half-precision copy, in place.

    Of `sleepers` the copy is as it should be, and the rest when they have settled.
    """
    table, (numbers, *_) = gradient.table, gradient.numbers
    pieces = _end_to_end(gradient.numbers) if table is None else _rows(table, numbers)
    told = _Rates(*map(float, rates))
    if sleepers is not None and flat.copy is not None:
        sleepers.remember(flat, rates)
    there = _told_flat(flat, sleepers)
    call(SOURCE, "adam", numbers, *map(ctypes.byref, (there, _told(pieces), told)))


def _end_to_end(numbers: Sequence[Tensor]) -> Pieces:
    """Where each lies, and its first and end in the run."""
    ends = [*itertools.accumulate((each.numel() for each in numbers), initial=0)]
    where = [each.data_ptr() for each in numbers]
    borders = itertools.pairwise(ends)
    pieces = [(place, *of) for place, of in zip(where, borders, strict=True)]
    return np.array(pieces, dtype=np.int64)


def _rows(table: Tensor, numbers: Tensor) -> Pieces:
    """The same of the rows of a sparse (R, H), whose (U, H) numbers lie there."""
    rows, width = table.indices()[0].numpy(), table.shape[1]  # (U,)
    pieces = np.empty((len(rows), 3), dtype=np.int64)
    pieces[:, 0] = numbers.data_ptr() + np.arange(len(rows)) * (width * numbers.element_size())
    pieces[:, 1], pieces[:, 2] = rows * width, (rows + 1) * width
    return pieces


def _told(pieces: Pieces) -> _Gradient:
    return _Gradient(pieces.ctypes.data, len(pieces))


def _told_flat(flat: Flat, sleepers: Sleepers | None) -> _Flat:
    told = None if sleepers is None else ctypes.pointer(sleepers.told())
    return _Flat(*map(pointer, flat), told, len(flat.weight))
