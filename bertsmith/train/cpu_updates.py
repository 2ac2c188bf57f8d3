"""Adam and the gradient's norm on a CPU: weights that never had a gradient only decay.

The functions of `cpu_updates.cpp` give the numbers of `updates`, which stays the definition and
takes what these do not: other devices, float64, and a machine without a compiler. Of LAMB's update
they make the direction.

Where the model computes with a rounded copy, such weights decay when that shows: `Sleepers` knows
what they have missed, and whoever reads weights asks it to `settle` them first.

A gradient is taken in pieces, each where it lies: one of each parameter, or of each row of a table.

Legend: E elements of a run, B its blocks of `BLOCK`, S steps that are remembered.
"""

from __future__ import annotations

import ctypes
import math
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bertsmith.native import call, pointer, takes
from bertsmith.structures import int64s, pointers
from bertsmith.train.gradient import Gradient

if TYPE_CHECKING:
    from bertsmith.train.updates import Flat, Rates, Update

SOURCE = Path(__file__).with_suffix(".cpp")
BLOCK = 256
"""Elements that wake together: that of `cpu_sleepers.h`."""
MOST_STEPS = 1024
"""Steps whose decays are remembered; after so many all weights take them."""
_ROUNDING = 2.0**-23
"""By what share of itself a weight may shrink beside its decay in a step."""


class _Rates(ctypes.Structure):
    """`Rates` of the source: the fields of `updates.Rates`, in their order."""

    _fields_ = tuple(
        (name, ctypes.c_float)
        for name in (
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
        *pointers("awake", "taken", "due", "decays"),
        *int64s("num_steps"),
        ("decayed", ctypes.c_double),
    )


class _Flat(ctypes.Structure):
    """`Flat` of the source."""

    _fields_ = (
        *pointers("weight", "exp_avg", "exp_avg_sq", "copy"),
        ("sleepers", ctypes.POINTER(_Sleepers)),
        ("count", ctypes.c_int64),
    )

    @staticmethod
    def of(flat: Flat, sleepers: Sleepers | None) -> _Flat:
        """As the source is told it."""
        assert all(each is None or each.is_contiguous() for each in flat)
        where = [None if each is None else each.data_ptr() for each in flat]
        those = None if sleepers is None else ctypes.pointer(sleepers.told)
        return _Flat(*where, those, len(flat.weight))


class _Gradient(ctypes.Structure):
    """`Gradient` of the source."""

    _fields_ = (
        *pointers("pieces", "numbers", "rows"),
        *int64s("num_pieces", "width"),
        ("is_bfloat16", ctypes.c_bool),
    )


class _Update(ctypes.Structure):
    """`Update` of the source."""

    _fields_ = (("flat", _Flat), ("gradient", _Gradient), ("rates", _Rates))


def suits(update: Update) -> bool:
    """Whether the functions are there for it."""
    weight, copy = update.flat.weight, update.flat.copy
    return (
        weight.dtype == torch.float32
        and (copy is None or copy.dtype == torch.bfloat16)
        and takes(SOURCE, *update.gradient.numbers)
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
        tensors = (self.awake, self._taken, self._due, self._decays)
        self.told = _Sleepers(*map(pointer, tensors), num_steps=0, decayed=0.0)
        """As the source is told it, which reads it in its place."""

    def wake_by(self, *moments: Tensor) -> None:
        """Says anew who is awake: blocks of (E,) moments with one that is not 0."""
        self.awake.zero_()
        for moment in moments:
            whole = len(moment) // BLOCK
            self.awake[:whole] |= (moment[: whole * BLOCK].view(whole, BLOCK) != 0).any(dim=1)
            if whole < len(self.awake):
                self.awake[whole] |= (moment[whole * BLOCK :] != 0).any()

    def settle(self, flat: Flat) -> None:
        """Gives all weights the decays that they have missed, before anybody sees or sets them."""
        if self.told.num_steps:
            told = _Flat.of(flat, self)
            call(SOURCE, "settle", flat.weight, ctypes.byref(told))
            self._taken.zero_()
            self._due.zero_()
            self.told.num_steps, self.told.decayed = 0, 0.0

    def remember(self, flat: Flat, rates: Rates) -> None:
        """Counts the step that comes now. The bits of a decay need its rates."""
        if self.told.num_steps == MOST_STEPS:
            self.settle(flat)
        self._decays.numpy()[self.told.num_steps] = rates.learning_rate, rates.weight_decay
        self.told.num_steps += 1
        share = rates.learning_rate * rates.weight_decay
        # Below zero all weights grow.
        self.told.decayed += share + _ROUNDING if share >= 0 else math.inf


class NativeUpdates:
    """Those of one step, for which the functions are there, told to the source once.

    Those that take LAMB's come last.
    """

    def __init__(self, updates: Sequence[Update]) -> None:
        updates = sorted(updates, key=lambda each: each.sizes is not None)
        self._num_adam = sum(each.sizes is None for each in updates)
        self._updates = updates
        self._pieces = [_pieces(each.gradient) for each in updates]  # which the source reads
        told = [_told(*each) for each in zip(updates, self._pieces, strict=True)]
        self._told = (_Update * len(updates))(*told)

    def squared_norm(self) -> Tensor:
        """Sum of all gradients' squares as a float32 scalar; wakes who has one."""
        total = self._call("squared_norm", len(self._updates))
        return torch.tensor(total, dtype=torch.float32, device="cpu")

    def adam(self, factor: float) -> None:
        """Moments, decoupled decay, weights and their half-precision copies, in place.

        Every gradient times the factor. Where somebody sleeps the copy is as it should be, and the
        rest when they have settled.
        """
        for flat, _, rates, sleepers, _ in self._updates[: self._num_adam]:
            if sleepers is not None and flat.copy is not None:
                sleepers.remember(flat, rates)
        self._call("adam", self._num_adam, ctypes.c_float(factor))

    @property
    def of_lamb(self) -> Sequence[Update]:
        """Those that take LAMB's; of them nobody's decays wait."""
        return self._updates[self._num_adam :]

    def direction(self, number: int, factor: float) -> Tensor:
        """LAMB's, (E,), for the run of that number in `of_lamb`, whose moments change.

        Every gradient times the factor.
        """
        weight, told = self.of_lamb[number].flat.weight, self._told[self._num_adam + number]
        found = torch.empty_like(weight)
        arguments = ctypes.byref(told), ctypes.c_float(factor), pointer(found)
        call(SOURCE, "directions", weight, *arguments)
        return found

    def _call(self, name: str, count: int, *arguments: object) -> float:
        """Of the first so many."""
        weight = self._updates[0].flat.weight
        return call(SOURCE, name, weight, self._told, ctypes.c_int64(count), *arguments)


def _pieces(gradient: Gradient) -> array[int] | None:
    """Of each its place, and its first and end in the run; None for rows of a table."""
    if gradient.table is not None:
        return None
    found, end = array("q"), 0
    for each in gradient.numbers:
        first, end = end, end + each.numel()
        found.extend((each.data_ptr(), first, end))
    return found


def _told(update: Update, pieces: array[int] | None) -> _Update:
    """As the source is told it."""
    gradient, numbers = update.gradient, update.gradient.numbers[0]
    is_bfloat16 = numbers.dtype == torch.bfloat16
    if pieces is not None:
        num_pieces = len(gradient.numbers)
        place, _ = pieces.buffer_info()
        of_gradient = _Gradient(place, None, None, num_pieces, 0, is_bfloat16)
    else:
        assert gradient.rows is not None
        where = (numbers.data_ptr(), gradient.rows.data_ptr())
        of_gradient = _Gradient(None, *where, *numbers.shape, is_bfloat16)
    of_flat = _Flat.of(update.flat, update.sleepers)
    return _Update(of_flat, of_gradient, _Rates(*update.rates))
