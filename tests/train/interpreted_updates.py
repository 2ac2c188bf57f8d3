"""A GPU's updates beside their definition, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.train.interpreted_updates

Triton looks for the variable once, when it is first imported. Its interpreter computes with numpy,
which has no bfloat16.
"""

from __future__ import annotations

import itertools
import json

import torch

from bertsmith.train import gpu_updates, updates
from bertsmith.train.gradient import Gradient
from bertsmith.train.updates import Flat, Rates, TensorRates
from tests.model.triton_kernels import patch_triton_once_a_function

RATES = Rates(1e-2, 0.01, 0.9, 0.1, 0.999, 0.001, 1e-6, 1.0 / (1.0 - 0.9**3), 1.5)
CASES = list(itertools.product([2, 64, 1000, 5000], [torch.float32, torch.float16]))
"""Elements, and what a gradient and the rounded copy are in."""


def flat_of(count: int, dtype: torch.dtype) -> tuple[Flat, torch.Tensor]:
    """Weights that have moments, some of them next to nothing, and a gradient."""
    generator = torch.Generator().manual_seed(count)
    weight, exp_avg, exp_avg_sq, gradient = torch.randn((4, count), generator=generator)
    exp_avg[::3], exp_avg_sq[::3], gradient[::3] = 1.1e-38, 1.1e-38, 0.0
    copy = None if dtype == torch.float32 else weight.to(dtype)
    return Flat(weight, exp_avg, exp_avg_sq.abs(), copy), gradient.to(dtype)


def errors(count: int, dtype: torch.dtype) -> list[float]:
    """The largest of the norm, and of weights, moments and copy, as shares of the largest one."""
    factor = torch.tensor(0.7)
    (flat, gradient), (exact, _) = (flat_of(count, dtype) for _ in range(2))
    expected = [updates.squared_norm_in_one_pass(gradient.double())]
    found = [gpu_updates.squared_norm(gradient)]
    gpu_updates.adam(flat, gradient, RATES, factor)
    wide = Flat(*(each.double() for each in exact[:3]), None)
    rates = TensorRates.of(RATES, factor.double())
    updates.adam_in_one_pass(wide, Gradient([gradient.double()]).whole, rates)
    expected += wide[:3]
    found += flat[:3]
    if flat.copy is not None:
        assert torch.equal(flat.copy, flat.weight.to(dtype))
    subnormal = (flat.exp_avg != 0) & (flat.exp_avg.abs() < torch.finfo(torch.float32).tiny)
    assert not bool(subnormal.any())
    assert count < 4 or not bool(flat.exp_avg[3::3].any()), "what would be subnormal is zero"
    return [
        float((other.double() - one).abs().max() / one.abs().max())
        for one, other in zip(expected, found, strict=True)
    ]


if __name__ == "__main__":
    patch_triton_once_a_function()
    gpu_updates._NUM_PROGRAMS = 2  # so that each has several tiles
    for case in CASES:
        print(json.dumps(errors(*case)), flush=True)
