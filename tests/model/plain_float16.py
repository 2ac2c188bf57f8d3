"""Products of float16 as `bertsmith.model.float16` defines them, one step after the other."""

import numpy as np
import torch

RUN = 64  # numbers that are rounded by one power of two, and summed up in float16


def product(left, right):
    """(R, D) by (C, D), float32 tensors: (R, C), to the bit."""
    rows, columns = (np.asarray(each, np.float32) for each in (left, right))
    total = np.zeros((len(rows), len(columns)), np.float32)
    for first in range(0, rows.shape[1], RUN):
        (a, of_a), (b, of_b) = (rounded(each[:, first : first + RUN]) for each in (rows, columns))
        sums = np.zeros_like(total, np.float16)
        for k in range(a.shape[1]):
            # In float64 the product of two is exact, and so is what becomes of it in a sum.
            each = a[:, k, None].astype(np.float64) * b[None, :, k]
            sums = (sums + each).astype(np.float16)
        total += sums.astype(np.float32) * (of_a[:, None] * of_b)
    return torch.from_numpy(total)


def rounded(numbers):
    """(R, at most 64) float32 -> the same in float16, and the (R,) powers of two that it lacks."""
    largest = np.abs(numbers).max(axis=1)
    with np.errstate(divide="ignore"):
        power = np.where(largest > 0, np.floor(np.log2(largest, dtype=np.float64)) - 3, 0)
    size = np.exp2(power).astype(np.float32)
    return (numbers / size[:, None]).astype(np.float16), size
