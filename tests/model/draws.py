"""Words of dropout whose draws are wanted ones: those at the bound, where kept and dropped meet."""

from __future__ import annotations

import numpy as np
import torch

from bertsmith.randomness import MIX32_MULTIPLIERS, mix32

PROBABILITIES = [1e-8, 0.1, 0.5, 0.999]


def words_at_the_bound(probability: float) -> torch.Tensor:
    """Words, (M,) int32, whose first column draws the bound's neighbours, or its upper half."""
    bound = 2 * int(probability * 2**31)
    lower = np.concatenate([np.arange(-4, 5) + bound % 2**16, np.arange(0, 2**16, 97)]) % 2**16
    draws = [(bound >> 16) * 2**16 + step * 2**16 + lower for step in (-1, 0, 1)]
    words = words_of((np.concatenate(draws) % 2**32).astype(np.uint32))
    return torch.from_numpy(words.view(np.int32))


def words_of(draws: np.ndarray) -> np.ndarray:
    """The words whose `mix32` these are."""
    first, second = (np.uint32(pow(each, -1, 2**32)) for each in MIX32_MULTIPLIERS)
    with np.errstate(over="ignore"):
        words = (draws ^ (draws >> np.uint32(16))) * second
        words = (words ^ (words >> np.uint32(15)) ^ (words >> np.uint32(30))) * first
        words = words ^ (words >> np.uint32(16))
    assert np.array_equal(mix32(words), draws)
    return words
