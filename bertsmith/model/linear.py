"""A linear map, whose weights can be laid out ahead for a CPU's matrix products.

Training takes the weights as they are, for every step changes them. A model that only answers lays
them out once: a product of few rows no longer waits for its weights, and the activation, or the
residual's addition, is done to each tile of the result while it is in the cache. The plain
functions are the definition; here they are only done together. Weights of eight bits
(`int8_weights`), where a person asks for them, take the same place. It does not know layers.

Differs: in bfloat16 a residual's sum is rounded before its norm, and the product before it is not.

Legend: T tokens, I width of a row, O width of a result.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.model import cpu_linear, float16
from bertsmith.model.config import Activation
from bertsmith.model.elementwise import activate, add_and_norm
from bertsmith.model.origins import Origins

# What oneDNN calls our activations: its name and its variant.
_IN_ONE: dict[Activation, tuple[str, str]] = {
    "gelu": ("gelu", "none"),
    "gelu_tanh": ("gelu", "tanh"),
    "relu": ("relu", ""),
    "silu": ("swish", ""),
    "tanh": ("tanh", ""),
}


class ReadyWeights(Protocol):
    """Weights in the form in which a model that only answers multiplies by them."""

    def product(self, rows: Tensor, bias: Tensor) -> Tensor:
        """(T, I) -> (T, O)."""

    def activated(self, rows: Tensor, bias: Tensor, activation: Activation) -> Tensor:
        """activation(product)."""

    def plus(self, rows: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        """The residual, (T, O), and the product added up."""


class TiledWeights:
    """The same values in the order in which oneDNN reads them."""

    def __init__(self, weight: Tensor) -> None:
        self._tiles = torch.ops.mkldnn._reorder_linear_weight(weight.detach())

    def product(self, rows: Tensor, bias: Tensor) -> Tensor:
        """(T, I) -> (T, O)."""
        return self._product(rows, bias, "none", [], "")

    def activated(self, rows: Tensor, bias: Tensor, activation: Activation) -> Tensor:
        """activation(product)."""
        name, variant = _IN_ONE[activation]
        return self._product(rows, bias, name, [], variant)

    def plus(self, rows: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
        """The residual, (T, O), and the product added up."""
        total: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
            rows, residual, self._tiles, bias, "add"
        )
        return total

    def _product(self, rows: Tensor, bias: Tensor, *then: object) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(rows, self._tiles, bias, *then)
        return product


PRODUCT_CHOICES = ("_ready", "in_float16")
"""What says, beside its weights, how a `Linear` multiplies: plain values of it."""


class Linear(nn.Linear):
    """(T, I) -> (T, O), as `nn.Linear`, with the same names and values."""

    _ready: ReadyWeights | None = None
    """The weights as products without a gradient take them."""
    _origins: Origins | None = None
    """Which weights these are."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__(in_features, out_features)
        self.in_float16 = False
        """Whether products are made of float16 (`float16`), where none were laid out."""

    def lay_out(self) -> None:
        """Lays the weights out for products without a gradient, where this CPU and build can.

        They stand in memory twice then. Weights in eight bits stay what is multiplied by; those
        that others make, anew each time, and of a map of another kind, are taken as they are.
        """
        if type(self) is Linear and self.own_products is None and can_lay_out(self.weight):
            self.take(TiledWeights(self.weight))

    def take(self, ready: ReadyWeights) -> None:
        """Multiplies by these where nobody asks for a gradient.

        What changes the weights afterwards undoes it, but for changes in place through `.data`,
        which nobody can see.
        """
        self._ready, self._origins = ready, Origins([(self, "weight")])

    def forget(self) -> None:
        """Multiplies by the weights as they are again."""
        self._ready = self._origins = None

    def ready_for(self, rows: Tensor) -> ReadyWeights | None:
        """The weights that were laid out, where a product with these rows is made from them."""
        is_so = (
            self._is_current()
            and not torch.is_grad_enabled()
            and rows.dtype == self.weight.dtype
            and len(rows) > 0
        )
        return self._ready if is_so else None

    @property
    def own_products(self) -> ReadyWeights | None:
        """What it multiplies by where it is asked by itself; None for the weights as they are."""
        return self._ready if self._is_current() else None

    @property
    def is_rounded(self) -> bool:
        """Whether products are made of other values than the weights'."""
        return self._is_current() and not isinstance(self._ready, TiledWeights)

    def _is_current(self) -> bool:
        return self._origins is not None and self._origins.are_here()

    def forward(self, input: Tensor) -> Tensor:
        """(T, I) -> (T, O)."""
        ready = self.ready_for(input)
        if ready is None:
            return self.multiplied(input, self.weight, self.bias)
        return ready.product(input, self.bias)

    def multiplied(self, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """(T, I) rows by its weights as they are, or by those of some of its outputs."""
        make = float16.linear if self.in_float16 else cpu_linear.linear
        return make(rows, weight, bias)

    def activated(self, rows: Tensor, activation: Activation) -> Tensor:
        """activation(self(rows))."""
        ready = self.ready_for(rows)
        if ready is None:
            return activate(self(rows), activation)
        return ready.activated(rows, self.bias, activation)

    def plus(self, rows: Tensor, residual: Tensor) -> Tensor:
        """The residual, (T, O), and self(rows) added up."""
        ready = self.ready_for(rows)
        if ready is None:
            return torch.add(residual, self(rows))
        return ready.plus(rows, self.bias, residual)

    def __getstate__(self) -> dict[str, Any]:
        """Without what was laid out, which can be neither copied nor pickled.

        Raises ValueError for weights that were rounded: a copy would silently be more exact.
        """
        if self.is_rounded:
            raise ValueError("a model in int8 cannot be copied or pickled: load it again")
        own = ("_ready", "_origins")
        return {name: value for name, value in vars(self).items() if name not in own}


def project_and_norm(
    linear: Linear,
    rows: Tensor,
    residual: Tensor,
    words: Tensor | None,
    probability: float,
    norm: nn.LayerNorm,
) -> Tensor:
    """LayerNorm(residual + dropout(linear(rows))), (T, O): how both sub-layers of a layer end."""
    is_dropping = words is not None and probability > 0.0
    if is_dropping or linear.ready_for(rows) is None:
        return add_and_norm(linear(rows), residual, words, probability, norm)
    total = linear.plus(rows, residual)
    return functional.layer_norm(total, norm.normalized_shape, norm.weight, norm.bias, norm.eps)


def linears(model: nn.Module) -> list[Linear]:
    """Every `Linear` of a model: the matrices of its encoder's layers."""
    return [module for module in model.modules() if isinstance(module, Linear)]


def can_lay_out(weight: Tensor) -> bool:
    """Whether this build of torch and this CPU have such products for weights of this dtype."""
    if weight.device.type != "cpu" or weight.is_inference():
        return False
    if not torch._C._has_mkldnn or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32
