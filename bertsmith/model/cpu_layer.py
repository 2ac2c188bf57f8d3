"""A layer of a model that only answers, on a CPU, in one call.

The functions of `cpu_layer.cpp` do all of a layer chunk by chunk, so that what stands between its
products never leaves the cache, and a short text does not wait for a dozen calls from Python. They
read weights that were laid out once for their products. `layer.Layer` made of torch's operators is
the definition, and takes what these do not: gradients, dropout, other devices and types, weights of
eight bits, and processors on which other products are faster.

Differs: in bfloat16 what a residual is added to, the sum before a norm and scores are not rounded,
and probabilities are before their sum divides the context.

Legend: T rows, R rows asked for, O width of a result, I width of a row, H hidden size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bertsmith.model.block_attention import AttentionRules
from bertsmith.model.config import Activation
from bertsmith.model.cpu_attention import NativeRules
from bertsmith.model.linear import Linear, origin
from bertsmith.model.stream import Stream
from bertsmith.native import call, has_fast_products, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")

_ACTIVATION_NUMBERS: dict[Activation, int] = {
    **{"gelu": 0, "gelu_tanh": 1, "relu": 2},
    **{"silu": 3, "tanh": 4},
}
# No panel is wider, no step of a product deeper.
_WIDEST, _DEEPEST = 64, 2


class _Panels(ctypes.Structure):
    """`Panels` of the source."""

    _fields_ = (
        ("numbers", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("depth", ctypes.c_int64),
        ("width", ctypes.c_int64),
    )


class _Norm(ctypes.Structure):
    """`Norm` of the source."""

    _fields_ = (
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("epsilon", ctypes.c_float),
    )


class _Layer(ctypes.Structure):
    """`Layer` of the source."""

    _fields_ = (
        *((name, _Panels) for name in ("queries", "keys_values", "output", "up", "down")),
        *((name, _Norm) for name in ("attention_norm", "output_norm")),
        ("rules", NativeRules),
        ("activation", ctypes.c_int),
    )


class ReadyLayer:
    """The weights of one layer as its products read them; they stand in memory twice then."""

    def __init__(
        self,
        linears: Sequence[Linear],
        norms: Sequence[nn.LayerNorm],
        rules: AttentionRules,
        activation: Activation,
    ) -> None:
        """Of the maps to queries, keys and values, from contexts, up and down; and both norms."""
        qkv, output, up, down = linears
        hidden = output.out_features
        matrices = (
            (qkv.weight[:hidden], qkv.bias[:hidden]),
            (qkv.weight[hidden:], qkv.bias[hidden:]),
            *((each.weight, each.bias) for each in (output, up, down)),
        )
        self._kept: list[Tensor] = []
        self._layer = _Layer(
            *(self._panels(*each) for each in matrices),
            *(self._norm(norm) for norm in norms),
            NativeRules.of(rules, hidden, None),
            _ACTIVATION_NUMBERS[activation],
        )
        self._dtype = qkv.weight.dtype
        self._linears, self._norms = linears, norms
        self._origins = self._found_origins()

    def suits(self, hidden: Tensor, stream: Stream, rows: Tensor | None) -> bool:
        """Whether the layer is the same still, and these hidden states are to go through it so."""
        is_counted = rows is None or (rows.dtype == torch.int64 and len(rows) > 0)
        return (
            not torch.is_grad_enabled()
            and hidden.dtype == self._dtype
            and stream.row_keys is None
            and 0 < len(hidden) == stream.num_tokens
            and is_counted
            and takes(SOURCE, hidden, stream.first_rows, *([] if rows is None else [rows]))
            and not any(each.has_products_of_its_own for each in self._linears)
            and self._found_origins() == self._origins
        )

    def _found_origins(self) -> list[tuple[int, int]]:
        """Of the weights that the layer has now."""
        linears, norms = self._linears, self._norms
        return [
            *(origin(each) for part in linears for each in (part.weight, part.bias)),
            *(origin(each) for part in norms for each in (part.weight, part.bias)),
        ]

    def __call__(self, hidden: Tensor, stream: Stream, rows: Tensor | None) -> Tensor:
        """(T, H) hidden states -> (T, H) hidden states, or of (R,) rows, (R, H).

        Raises IndexError for a row that is not there.
        """
        hidden = hidden.contiguous()
        if rows is not None:
            rows = rows.contiguous()
            lowest, highest = (int(each) for each in rows.aminmax())
            if lowest < 0 or highest >= len(hidden):
                raise IndexError(f"rows must be 0 to {len(hidden) - 1}: {lowest} to {highest}")
        count = len(hidden) if rows is None else len(rows)
        output = hidden.new_empty(count, hidden.shape[1])
        call(
            SOURCE,
            "layer",
            hidden,
            ctypes.byref(self._layer),
            *map(pointer, (hidden, stream.first_rows, stream.last_rows)),
            ctypes.c_int64(len(stream.first_rows)),
            pointer(rows),
            ctypes.c_int64(count),
            pointer(output),
        )
        return output

    def _panels(self, weight: Tensor, bias: Tensor) -> _Panels:
        """(O, I) weights, (O,) biases."""
        width, depth = weight.shape
        wide, deep = _rounded_up(width, _WIDEST), _rounded_up(depth, _DEEPEST)
        numbers, biases = weight.new_zeros(wide * deep), bias.new_zeros(wide, dtype=torch.float32)
        biases[:width] = bias.detach()
        matrix = weight.detach().contiguous()
        sizes = ctypes.c_int64(depth), ctypes.c_int64(width)
        call(SOURCE, "lay_out", matrix, pointer(matrix), *sizes, pointer(numbers))
        return _Panels(self._keep(numbers), self._keep(biases), depth, width)

    def _norm(self, norm: nn.LayerNorm) -> _Norm:
        weight, bias = (each.detach().float().clone() for each in (norm.weight, norm.bias))
        return _Norm(self._keep(weight), self._keep(bias), norm.eps)

    def _keep(self, tensor: Tensor) -> int:
        """Where it lies, as long as this lives."""
        self._kept.append(tensor)
        return tensor.data_ptr()


def can_lay_out(hidden_size: int, num_heads: int, *weights: Tensor) -> bool:
    """Whether a layer of these weights can go this way here, and is no slower so."""
    return (
        hidden_size % (num_heads * _DEEPEST) == 0
        and all(each.dtype == weights[0].dtype for each in weights)
        and takes(SOURCE, *weights)
        and has_fast_products(SOURCE, weights[0])
    )


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step
