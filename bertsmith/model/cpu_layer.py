"""The weights of a Transformer layer for inference, packed for the products of a CPU.

The functions of `cpu_layer.h` do all of a layer chunk by chunk, so that what lies between its
products never leaves the cache, and a short text does not wait for a dozen calls from Python. They
read weights that were packed once: in their own type, bfloat16 (`cpu_layer.cpp`) or float32
(`cpu_float32_layer.cpp`), as int8 (`cpu_int8_layer.cpp`) or as float16 (`cpu_float16_layer.cpp`).
`cpu_layers` calls them.
`layer.Layer` made of torch's operators is the definition, and takes what these do not: gradients,
dropout, other devices and types, and processors on which other products are faster.

Differs: in bfloat16 what a residual is added to, the sum before a norm and scores are not rounded,
and probabilities are before their sum divides the context. Where a pooler's rows are asked for,
scores are of queries turned by the map to keys, and values of sums (cpu_lone_queries.h).

Legend: O width of a result, I width of a row.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import Activation
from bertsmith.model.cpu_attention import NativeRules
from bertsmith.model.cpu_norm import NativeNorm
from bertsmith.model.int8_weights import ZERO, Int8Weights
from bertsmith.model.linear import Linear
from bertsmith.model.origins import Origins
from bertsmith.native import call, has_fast_products, pointer, size, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
FLOAT32_SOURCE = Path(__file__).with_name("cpu_float32_layer.cpp")
INT8_SOURCE = Path(__file__).with_name("cpu_int8_layer.cpp")
FLOAT16_SOURCE = Path(__file__).with_name("cpu_float16_layer.cpp")

_ACTIVATION_NUMBERS: dict[Activation, int] = {
    **{"gelu": 0, "gelu_tanh": 1, "relu": 2},
    **{"silu": 3, "tanh": 4},
}
# No panel is wider: `WIDEST_PANEL` of the source.
_WIDEST = 128
# What a head's size is a multiple of, and one whose queries may be lone: `WIDEST` of the source.
_STEP, _HEAD_STEP = 2, 64


class _Panels(ctypes.Structure):
    """`Panels` of the source."""

    _fields_ = (*pointers("numbers", "bias"), *int64s("depth", "width"))


class _LevelPanels(ctypes.Structure):
    """`LevelPanels` of the source."""

    _fields_ = (("panels", _Panels), *pointers("steps", "offsets"))


_MATRICES = ("qkv", "output", "up", "down")
_REST = (
    *((name, NativeNorm) for name in ("attention_norm", "output_norm")),
    ("rules", NativeRules),
    ("activation", ctypes.c_int),
)


class _Layer(ctypes.Structure):
    """`Layer` of the source."""

    _fields_ = (*((name, _Panels) for name in _MATRICES), *_REST, ("keys_by_heads", _Panels))


class _Int8Layer(ctypes.Structure):
    """`Layer` of the source whose weights are in eight bits."""

    _fields_ = (
        *((name, _LevelPanels) for name in _MATRICES),
        *_REST,
        ("keys_by_heads", _LevelPanels),
    )


class ReadyLayer:
    """The weights of one layer as its products read them, beside those that the layer holds."""

    def __init__(
        self,
        linears: Sequence[Linear],
        norms: Sequence[nn.LayerNorm],
        rules: AttentionRules,
        activation: Activation,
        origins: Origins,
    ) -> None:
        """Of the maps to queries, keys and values, from contexts, up and down; and both norms.

        `origins`: of all that this is made of.
        """
        self.qkv = linears[0]
        """The map to queries, keys and values."""
        self._origins = origins
        self.dtype = linears[0].weight.dtype
        self._kept: list[Tensor] = []
        self.hidden_size = hidden = linears[1].out_features
        rest = (
            *(self._norm(norm) for norm in norms),
            NativeRules.of(rules, hidden, has_words=False),
            _ACTIVATION_NUMBERS[activation],
        )
        self.source = source_of(linears)
        self.kind = (self.source, self.dtype, hidden)
        """What layers of one call have in common."""
        self.lock = threading.Lock()
        """For making, once, what is not laid out before somebody asks for it."""
        self.structure: _Layer | _Int8Layer
        self._for_pooling: _Layer | _Int8Layer | None = None
        if rounded := rounded_weights(linears):
            levels = (
                (each.levels, each.steps, part.bias)
                for each, part in zip(rounded, linears, strict=True)
            )
            self.structure = _Int8Layer(
                *(self._level_panels(*each) for each in _apart(levels, hidden)), *rest
            )
        else:
            weights = ((each.weight.detach(), each.bias) for each in linears)
            self.structure = _Layer(
                *(self._panels(*each) for each in _apart(weights, hidden)), *rest
            )

    def structure_for_pooling(self) -> _Layer | _Int8Layer:
        """`structure` with the map to keys once more, by heads, which turns lone queries.

        It is laid out when first asked for, by one thread, for which others wait. Levels, what is
        multiplied in float16 and narrow heads have no such way.
        """
        with self.lock:
            if self._for_pooling is None:
                self._for_pooling = self._made_for_pooling()
            return self._for_pooling

    def _made_for_pooling(self) -> _Layer | _Int8Layer:
        if not isinstance(self.structure, _Layer) or self.source == FLOAT16_SOURCE:
            return self.structure
        hidden, num_heads = self.hidden_size, self.structure.rules.num_heads
        if hidden // num_heads % _HEAD_STEP:
            return self.structure
        keys = self.qkv.weight.detach()[hidden : 2 * hidden]  # (H, H), K rows a head
        by_heads = [self._laid_out(each.t()) for each in keys.chunk(num_heads)]
        structure = _Layer.from_buffer_copy(self.structure)
        structure.keys_by_heads.numbers = self._keep(torch.cat(by_heads))
        return structure

    @property
    def wide(self) -> int:
        """Columns of queries, keys and values, up to whole panels of any width."""
        return _rounded_up(self._num_columns, _WIDEST)

    def in_columns(self, values: Tensor) -> Tensor:
        """(O,) of queries, keys and values -> where their columns are, zeros between and behind."""
        hidden, found = len(values) // 3, values.new_zeros(self.wide)
        found[:hidden] = values[:hidden]
        found[self._num_columns - 2 * hidden : self._num_columns] = values[hidden:]
        return found

    @property
    def _num_columns(self) -> int:
        qkv = self.structure.qkv
        return int((qkv.panels if isinstance(qkv, _LevelPanels) else qkv).width)

    def is_unchanged(self) -> bool:
        """Whether the layer is what was laid out, and its maps have what they took then."""
        return self._origins.are_here()

    def _panels(self, weight: Tensor, bias: Tensor) -> _Panels:
        """(O, I) weights or levels, (O,) biases."""
        width, depth = weight.shape
        numbers = self._keep(self._laid_out(weight))
        return _Panels(numbers, self._filled_up(bias.detach().float()), depth, width)

    def _laid_out(self, weight: Tensor) -> Tensor:
        """(O, I) weights or levels -> panels, as bytes."""
        (width, depth), matrix = weight.shape, weight.contiguous()
        told = matrix.new_empty(0, dtype=self.dtype)  # of the functions' type
        sizes = ctypes.c_int64(depth), ctypes.c_int64(width)
        numbers = torch.zeros(size(self.source, "laid_out_bytes", told, *sizes), dtype=torch.uint8)
        call(self.source, "lay_out", told, pointer(matrix), *sizes, pointer(numbers))
        return numbers

    def _level_panels(self, levels: Tensor, steps: Tensor, bias: Tensor) -> _LevelPanels:
        """(O, I) levels, (O,) sizes of one, (O,) biases."""
        offsets = ZERO * levels.sum(dim=1, dtype=torch.int32)
        return _LevelPanels(
            self._panels(levels, bias), self._filled_up(steps), self._filled_up(offsets)
        )

    def _filled_up(self, values: Tensor) -> int:
        """(O,) -> where they lie with zeros behind them, up to whole panels."""
        room = values.new_zeros(_rounded_up(len(values), _WIDEST))
        room[: len(values)] = values
        return self._keep(room)

    def _norm(self, norm: nn.LayerNorm) -> NativeNorm:
        weight, bias = (each.detach().float().clone() for each in (norm.weight, norm.bias))
        return NativeNorm(self._keep(weight), self._keep(bias), norm.eps)

    def _keep(self, tensor: Tensor) -> int:
        """Where it lies, as long as this lives."""
        self._kept.append(tensor)
        return tensor.data_ptr()


def can_lay_out(linears: Sequence[Linear], num_heads: int) -> bool:
    """Whether a layer of these four maps can go this way here, and is no slower so.

    Maps of which only some have weights in eight bits cannot.
    """
    hidden_size, dtype = linears[1].out_features, linears[0].weight.dtype
    weights = [each for part in linears for each in (part.weight, part.bias)]
    source = source_of(linears)
    of_bytes, of_float16 = source == INT8_SOURCE, source == FLOAT16_SOURCE
    return (
        hidden_size % (num_heads * _STEP) == 0
        and all(each.dtype == dtype for each in weights)
        and (of_bytes or not any(each.is_rounded for each in linears))
        and has_fast_products(source, weights[0], of_bytes=of_bytes, of_float16=of_float16)
        and takes(source, *weights)
    )


def rounded_weights(linears: Sequence[Linear]) -> list[Int8Weights]:
    """Those of eight bits of each map; none where not all maps have such."""
    found = [each.own_products for each in linears]
    rounded = [each for each in found if isinstance(each, Int8Weights)]
    return rounded if len(rounded) == len(found) else []


def source_of(linears: Sequence[Linear]) -> Path:
    """Which functions multiply by such maps."""
    if rounded_weights(linears):
        return INT8_SOURCE
    if linears[0].weight.dtype != torch.float32:
        return SOURCE
    return FLOAT16_SOURCE if all(each.in_float16 for each in linears) else FLOAT32_SOURCE


def _apart(of_maps: Iterable[tuple[Tensor, ...]], hidden: int) -> Iterator[tuple[Tensor, ...]]:
    """Rows of zeros behind those of queries, up to whole panels; the other maps as they are."""
    qkv, *others = of_maps
    missing = _rounded_up(hidden, _WIDEST) - hidden
    yield tuple(
        torch.cat([each[:hidden], each.new_zeros(missing, *each.shape[1:]), each[hidden:]])
        for each in qkv
    )
    yield from others


def _rounded_up(count: int, step: int) -> int:
    return -(-count // step) * step
