"""Integers -> random numbers, by one counter-based hash: no state, no generator, no history.

Every draw is a function of (seed, stream, index, ...): the same counters give the same number in
any order, in any process, for any version of numpy. Two hashes live here: `hash64` for data (pairs,
masks, shuffling, initialisation) and `mix32` for dropout, which `model.dropout` repeats in torch to
the bit.

Source: splitmix64's finaliser (Steele, Lea, Flood 2014); "lowbias32" (C. Wellons, hash-prospector).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
UInt32Array = npt.NDArray[np.uint32]
FloatArray = npt.NDArray[np.float64]
Int64Array = npt.NDArray[np.int64]
Counter = int | npt.NDArray[np.integer]

MIX32_MULTIPLIERS = (0x7FEB352D, 0x846CA68B)
_MIX64_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_GOLDEN_GAMMA, _ALL_BITS = 0x9E3779B97F4A7C15, 2**64 - 1


class Stream(IntEnum):
    """What a draw is for: the second counter of every hash, so that no two purposes share draws."""

    SHUFFLE = 1
    PAIRS = 2
    MASKS = 3
    DROPOUT = 4
    INIT = 5
    HOLD_OUT = 6
    HEAD = 7
    SPLIT = 8
    RESAMPLE = 9


def hash64(*counters: Counter) -> UInt64Array:
    """A 64-bit hash of the counters, broadcast against each other like numpy operands."""
    if not counters:
        raise ValueError("hash64 needs at least one counter")
    number, start = 0, 0
    for counter in counters:  # leading numbers: Python mixes them faster than numpy
        if not isinstance(counter, int) or not -(2**63) <= counter < 2**64:
            break
        number, start = _next_state(number, counter), start + 1
    state: Any = np.uint64(number)
    with np.errstate(over="ignore"):
        for counter in counters[start:]:
            word = np.asarray(counter).astype(np.int64).view(np.uint64)
            state = _mix64((state ^ word) + np.uint64(_GOLDEN_GAMMA))
    mixed: UInt64Array = state
    return mixed


def uniform(*counters: Counter) -> FloatArray:
    """Uniform float64 in [0, 1), 53 random bits."""
    return (hash64(*counters) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(high: Counter, *counters: Counter) -> Int64Array:
    """Uniform int64 in [0, high); `high` in [1, 2^32) broadcasts with the counters.

    By multiply and shift: the bias is below high / 2^32.
    """
    upper = hash64(*counters) >> np.uint64(32)
    return ((upper * np.asarray(high).astype(np.uint64)) >> np.uint64(32)).astype(np.int64)


def permutation(size: int, *counters: Counter) -> Int64Array:
    """A random order of 0..size-1, (size,) int64."""
    order = np.argsort(hash64(*counters, np.arange(size, dtype=np.int64)), kind="stable")
    return order.astype(np.int64)


def mix32(words: UInt32Array) -> UInt32Array:
    """The 32-bit finaliser under dropout; `model.dropout.mix32` is its twin in torch."""
    first, second = (np.uint32(multiplier) for multiplier in MIX32_MULTIPLIERS)
    words = np.asarray(words, dtype=np.uint32)
    with np.errstate(over="ignore"):
        words = (words ^ (words >> np.uint32(16))) * first
        words = (words ^ (words >> np.uint32(15))) * second
        return words ^ (words >> np.uint32(16))


def dropout_row_keys(
    seed: int, step: int, sequence_keys: npt.NDArray[np.integer], positions: npt.NDArray[np.integer]
) -> npt.NDArray[np.int32]:
    """(T,) int32: one word a token, from which every dropout site of a step derives its draws.

    Keyed by the sequence's number in the step and the position in the sequence, never by the row of
    the stream, so packing, accumulation and world size do not change a mask.
    """
    words = hash64(seed, Stream.DROPOUT, step, sequence_keys, positions) >> np.uint64(32)
    return words.astype(np.uint32).view(np.int32)


def _mix64(state: UInt64Array) -> UInt64Array:
    first, second = map(np.uint64, _MIX64_MULTIPLIERS)
    state = (state ^ (state >> np.uint64(30))) * first
    state = (state ^ (state >> np.uint64(27))) * second
    return state ^ (state >> np.uint64(31))


def _next_state(state: int, counter: int) -> int:
    """`hash64`'s next state by one number, everything modulo 2^64."""
    first, second = _MIX64_MULTIPLIERS
    word = ((state ^ (counter & _ALL_BITS)) + _GOLDEN_GAMMA) & _ALL_BITS
    word = ((word ^ (word >> 30)) * first) & _ALL_BITS
    word = ((word ^ (word >> 27)) * second) & _ALL_BITS
    return word ^ (word >> 31)
