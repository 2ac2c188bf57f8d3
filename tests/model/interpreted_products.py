"""Products with GELU in them beside operators, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_products

In float32 and in small tiles, whose number is none of the rows', the programs', nor a group's.
"""

from __future__ import annotations

import json

import torch
from torch.nn import functional

from bertsmith.model import gpu_products
from tests.model.interpreted_layer import of_layer
from tests.model.triton_kernels import patch_triton_once_a_function

NUM_ROWS = [16, 37, 71]
"""A tile, and more that do not fill the last one."""
HIDDEN, WIDTH = 48, 64
TILE = {"ROWS": 16, "COLUMNS": 16, "DEPTH": 16, "GROUP": 2}


def errors(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> list[float]:
    """As shares of what is expected."""
    return [float((other.double() - one).norm() / one.norm()) for one, other in pairs]


def of_products(num_rows: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The map up, GELU, their way back and its sums: operators in float64, kernels in float32."""
    generator = torch.Generator().manual_seed(num_rows)

    def drawn(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator)

    states, up, bias = drawn(num_rows, HIDDEN), drawn(WIDTH, HIDDEN) * 0.2, drawn(WIDTH)
    gradient, down = drawn(num_rows, HIDDEN), drawn(HIDDEN, WIDTH)
    inner = functional.linear(states.double(), up.double(), bias.double()).requires_grad_()
    active = functional.gelu(inner)
    active.backward(gradient.double() @ down.double())
    assert inner.grad is not None
    expected = [inner.detach(), active.detach(), inner.grad, inner.grad.sum(0)]
    found = [*gpu_products.up_and_gelu(states, up, bias)]
    found += gpu_products.down_backward(gradient, down, found[0])
    return list(zip(expected, found, strict=True))


if __name__ == "__main__":
    patch_triton_once_a_function()
    gpu_products.UP_TILE = gpu_products.BACK_TILE = TILE
    gpu_products._num_processors = lambda device: 3  # type: ignore
    # What is not written is then not a number, and would be seen.
    torch.use_deterministic_algorithms(True)
    for num_rows in NUM_ROWS:
        print(json.dumps(errors(of_products(num_rows))), flush=True)
    gpu_products.suits = lambda *given: True  # type: ignore
    print(json.dumps(errors(of_layer((2, 32), (0.1, 0.0), is_asked=False))), flush=True)
