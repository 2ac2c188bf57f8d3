"""Weights of a linear map in eight bits, for answers on a CPU: products in half bfloat16's time.

Weights are quantised to 255 levels, scaled by the largest weight of each output, and activations to
255 levels, scaled by the largest entry of each row; products of levels are summed exactly, then
scaled back. So a token's result does not depend on what else is read with it. docs/answers.md says
what it costs in accuracy. It knows no layers, and nothing learns through it.

Legend: T tokens, I width of a row, O width of a result.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from bertsmith.model.config import Activation
from bertsmith.model.elementwise import activate

LEVELS = 127
"""On each side of zero."""
ZERO = 128
"""Products take rows as unsigned bytes, which stand this much above their level."""


class Int8Weights:
    """The levels of (O, I) weights, with the (O,) size of one level; its products are oneDNN's.

    Where a whole layer is one call (`cpu_layer`), the levels alone are read.
    """

    def __init__(self, weight: Tensor) -> None:
        """Rounds each output's weights to its own levels."""
        wide = weight.detach().float()
        self.steps = step_sizes(wide)[:, 0]  # (O,)
        self.levels = (wide / self.steps[:, None]).round().to(torch.int8)  # (O, I)

    def product(self, rows: Tensor, bias: Tensor) -> Tensor:
        """(T, I) -> (T, O) in the rows' type."""
        return self._product(rows, bias).to(rows.dtype)

    def activated(self, rows: Tensor, bias: Tensor, activation: Activation) -> Tensor:
        """activation(product)."""
        return activate(self.product(rows, bias), activation)

    def plus(self, rows: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        """The residual, (T, O), and the product added up."""
        return self._product(rows, bias).add_(residual).to(residual.dtype)

    @functools.cached_property
    def _packed(self) -> tuple[Tensor, Tensor]:
        """The levels as oneDNN wants them, and the zero of each output."""
        zeros = torch.zeros(len(self.levels), dtype=torch.int32)
        return torch.ops.onednn.qlinear_prepack(self.levels, None), zeros

    def _product(self, rows: Tensor, bias: Tensor) -> Tensor:
        """(T, O) in float32."""
        packed, zeros = self._packed
        assert rows.dim() == 2
        wide = rows.float()
        steps = step_sizes(wide)  # (T, 1)
        levels = (wide * steps.reciprocal()).round_().to(torch.int8)  # (T, I)
        raised = levels.view(torch.uint8).bitwise_xor_(ZERO)  # the same, ZERO above
        sums = torch.ops.onednn.qlinear_pointwise(
            raised, 1.0, ZERO, packed, self.steps, zeros, None, 1.0, 0, torch.float32,
            "none", [], "",
        )  # fmt: skip
        return torch.addcmul(bias.float(), sums, steps)


def step_sizes(rows: Tensor) -> Tensor:
    """(R, I) float32 -> (R, 1): how far the levels of each row are apart."""
    lowest, highest = rows.amin(dim=1, keepdim=True), rows.amax(dim=1, keepdim=True)
    return (torch.maximum(highest, -lowest) / LEVELS).clamp_min_(torch.finfo(torch.float32).tiny)


@functools.cache
def multiplies_int8() -> bool:
    """True where this CPU has such products and this build of torch sums them exactly; tried, once.

    Processors before AVX512-VNNI and AVX-VNNI, and oneDNN told to be like one, add pairs of
    products in 16 bits, which overflow where all levels are high. Others are right and very slow.
    """
    has = torch.cpu.get_capabilities()
    if not any(has.get(name) for name in ("avx512_vnni", "avx_vnni", "amx_int8")):
        return False
    rows = torch.tensor([[1.0], [-1.0]]).repeat(1, 256)
    try:
        found = Int8Weights(torch.ones(16, 256)).product(rows, torch.zeros(16))
    except (RuntimeError, AttributeError):  # a build without these products
        return False
    return torch.allclose(found, rows[:, :1] * 256.0, rtol=1e-4)
