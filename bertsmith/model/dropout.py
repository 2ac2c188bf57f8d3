"""Row keys -> dropout masks, by a counter-based integer hash fused into the kernels around it.

A mask is a function of (seed, step, site, sequence, position, column): it does not depend on how
the batch is packed, split or distributed, is never stored, and costs a few integer operations an
element where `bernoulli_` costs more than the matrix multiplication beside it. `randomness.mix32`
is the numpy twin, tested equal to the bit. It knows no layers.

Legend: T tokens, H columns.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from bertsmith.randomness import MIX32_MULTIPLIERS

ATTENTION_SITE, ATTENTION_OUTPUT_SITE, FEED_FORWARD_SITE = range(3)
LSTM_SITE = 0  # the one place of a layer that has no others
EMBEDDING_SITE, HEAD_SITE = -1, -2
SITES_PER_LAYER = 3

_SITE_MULTIPLIER = 0x9E3779B1
COLUMN_MULTIPLIER = 0x85EBCA77
HEAD_BITS = 16
"""Attention's columns are (head, key): the head's number stands above the key's position."""


class NativeDropout(ctypes.Structure):
    """`Dropout` of cpu_dropout.h: what is kept, and how much more it counts."""

    _fields_ = (("bar", ctypes.c_uint32), ("kept", ctypes.c_float))

    @staticmethod
    def of(probability: float, *, has_words: bool = True) -> NativeDropout:
        """With that probability, where there are words for it; without, all is kept."""
        rate = probability if has_words else 0.0
        return NativeDropout(bar=int(rate * 2**31), kept=1.0 / (1.0 - rate))


def signed32(word: int) -> int:
    """The integer in [-2^31, 2^31) with the same low 32 bits: torch has no unsigned arithmetic."""
    return (word + 2**31) % 2**32 - 2**31


def mix32(words: Tensor) -> Tensor:
    """The finaliser of `randomness.mix32` on int32 tensors, wrapping around like uint32."""
    first, second = (signed32(multiplier) for multiplier in MIX32_MULTIPLIERS)
    return _folded(_folded(_folded(words, 16).mul_(first), 15).mul_(second), 16)


def _folded(words: Tensor, bits: int) -> Tensor:
    """Unsigned words ^ (words >> bits), in memory of its own that may be written to."""
    return (words >> bits).bitwise_and_((1 << (32 - bits)) - 1).bitwise_xor_(words)


def site_words(row_keys: Tensor | None, layer: int, site: int) -> Tensor | None:
    """One word a token for one place in the network, (T,) int32; None when dropout is off."""
    if row_keys is None:
        return None
    return mix32(row_keys ^ signed32(site_number(layer, site)))


def site_number(layer: int, site: int) -> int:
    """What a row's key is combined with at one place in the network, 32 bits."""
    number = site if site < 0 else layer * SITES_PER_LAYER + site
    return (number + 2) * _SITE_MULTIPLIER % 2**32


def keep_factors(words: Tensor, columns: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """1 / (1 - p) where an element is kept and 0 where it is dropped, in `dtype`."""
    return keep_mask(words, columns, probability, dtype).mul_(1.0 / (1.0 - probability))


def keep_mask(words: Tensor, columns: Tensor, probability: float, dtype: torch.dtype) -> Tensor:
    """1 where an element is kept and 0 where it is dropped, in `dtype`.

    `words` and `columns` are int32 and broadcast against each other. Each element draws 31 bits, so
    the rate is exact to 5e-10: the upper ones of `mix32(words ^ columns * COLUMN_MULTIPLIER)`. Of
    that, both folds at its ends are made of fewer numbers here. The first is linear over XOR, so
    words and columns are folded before they meet; and a draw compares with the bar as it does with
    the bar's own upper half folded in, for where their upper halves differ these decide, and where
    they do not it is the same.
    """
    first, second = (signed32(multiplier) for multiplier in MIX32_MULTIPLIERS)
    columns = columns * signed32(COLUMN_MULTIPLIER)
    mixed = (_folded(words, 16) ^ _folded(columns, 16)).mul_(first)
    mixed = _folded(mixed, 15).mul_(second)
    bar = int(probability * 2**31)
    # Cut out, for torch before 2.13 computes columns that it counts itself, and so draws, in 64
    # bits on a GPU, and above these 32 stands what belongs to no draw.
    draws = mixed.bitwise_xor_(bar >> 15).bitwise_right_shift_(1).bitwise_and_(2**31 - 1)
    # Without a comparison: torch turns no truth values into numbers by vectors on a CPU.
    return draws.sub_(bar).bitwise_right_shift_(31).add_(1).to(dtype)


def dropped(hidden: Tensor, words: Tensor | None, probability: float) -> Tensor:
    """Dropout on (T, H) rows; the identity when `words` is None or the probability is 0."""
    if words is None or probability == 0.0:
        return hidden
    columns = torch.arange(hidden.shape[1], dtype=torch.int32, device=hidden.device)
    factors = keep_factors(words[:, None], columns[None, :], probability, hidden.dtype)
    return hidden * factors  # (T, H)
