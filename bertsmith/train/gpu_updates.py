"""Adam and the gradient's norm on a GPU: the kernels of `update_kernels`, launched.

They give the numbers of `updates`, which stays the definition and takes what these do not: other
devices, float64, LAMB's update, and a GPU without Triton. A step finds them built, where
torch.compile would take seconds, and half a millisecond before each of its kernels.

Legend: E elements of a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from bertsmith import gpu_kernels

if TYPE_CHECKING:
    from bertsmith.train.updates import Flat, Rates

SQUARES_TILE = {"BLOCK": 4096}
ADAM_TILE = {"BLOCK": 2048}
OPTIONS = {"num_warps": 8}
_NUM_PROGRAMS = 1056
"""That share a gradient's elements; more would leave more sums to add up."""
_HALVES = (torch.bfloat16, torch.float16)


def suits(weight: Tensor, gradient: Tensor) -> bool:
    """Whether the kernels take a run's (E,) weights and such a gradient."""
    return (
        weight.is_cuda
        and weight.dtype == torch.float32
        and gradient.dtype in (torch.float32, *_HALVES)
        and gpu_kernels.run_on(weight.device)
    )


def squared_norm(gradient: Tensor) -> Tensor:
    """Sum of the squares of (E,), a scalar in float32."""
    from bertsmith.train import update_kernels

    num_programs = min(_NUM_PROGRAMS, max(1, -(-len(gradient) // SQUARES_TILE["BLOCK"])))
    sums = gradient.new_empty(num_programs, dtype=torch.float32)
    num_lines, rest = divmod(len(gradient), update_kernels.LINE)
    arguments, constants = (gradient, sums, num_lines), {"REST": rest, **SQUARES_TILE}
    gpu_kernels.launch(update_kernels.squares, (num_programs, 1, 1), arguments, constants, OPTIONS)
    return sums.sum()


def adam(flat: Flat, gradient: Tensor, rates: Rates, factor: Tensor) -> None:
    """As `updates.adam`; `factor`: a scalar on the device, of clipping and loss scale."""
    from bertsmith.train import update_kernels

    num_lines, rest = divmod(len(gradient), update_kernels.LINE)
    arguments = (*flat, gradient, factor.to(flat.weight), num_lines, *rates)
    grid, constants = (-(-len(gradient) // ADAM_TILE["BLOCK"]), 1, 1), {"REST": rest, **ADAM_TILE}
    gpu_kernels.launch(update_kernels.adam, grid, arguments, constants, OPTIONS)
