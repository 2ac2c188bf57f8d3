"""A Transformer layer that learns, on a CPU, as one function takes it.

The functions of `cpu_training_layer.cpp`, in bfloat16 where a CPU multiplies it, and of
`cpu_float32_training_layer.cpp` do all of a layer chunk by chunk, so that a step of few tokens does
not wait for sixty calls from Python, and in one of many a chunk's rows are still in the cache when
the next product reads them. `cpu_training_layers` calls them. Values, gradients and dropout masks
are those of `layer.Layer` made of operators, which is the definition and takes what these do not:
products in float16, float32 where a matrix is large or vectors are short, other types, devices and
processors, heads of other sizes than whole bands (cpu_bands.h), other activations than GELU,
weights that do not learn, and parts that somebody watches or changed.

Differs: GELU is made of the sums themselves, not of what they were rounded to, and its slope with
it, which is rounded; in float32 the share that it lets through is within 3e-7. What comes to a
hidden state from queries, keys, values and the residual is added up before it is rounded. Where a
pooler's rows are asked for, scores are of queries turned by the map to keys, and values of sums:
the keys' bias then has a gradient of zero. A bias may not be changed between the way there and the
way back. Reentrant checkpointing, which goes there first without a gradient, computes that pass by
operators, and so with other roundings.

Legend: T tokens, R rows asked for, H hidden size, F feed-forward size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.model.cpu_attention import LONGEST, NativeRules, NativeSequences
from bertsmith.model.cpu_norm import NativeNorm
from bertsmith.model.dropout import SITES_PER_LAYER, NativeDropout, site_number
from bertsmith.model.layer_rules import (
    NUM_MAPS,
    NUM_NORMS,
    LayerRules,
    LearningLayer,
    are_of_one_layer,
)
from bertsmith.model.stream import Stream
from bertsmith.native import has_fast_products, has_long_vectors, learns, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
FLOAT32_SOURCE = Path(__file__).with_name("cpu_float32_training_layer.cpp")
_SOURCES = {torch.bfloat16: SOURCE, torch.float32: FLOAT32_SOURCE}
_PANEL, _BAND = 64, 32
"""What widths are multiples of, and those of heads."""
MOST_NUMBERS = 2**20
"""Numbers of a float32 matrix, the most; with larger ones torch's gradients of weights are so much
faster that a whole step is faster by operators (docs/log.md)."""


class NativeLayer(ctypes.Structure):
    """`Layer` of the source."""

    _fields_ = (
        ("weights", ctypes.c_void_p * NUM_MAPS),
        ("biases", ctypes.c_void_p * NUM_MAPS),
        ("norms", NativeNorm * NUM_NORMS),
        ("rules", NativeRules),
        ("dropout", NativeDropout),
        ("sites", ctypes.c_uint32 * SITES_PER_LAYER),
        *int64s("hidden", "inner"),
    )

    @staticmethod
    def of(weights: Sequence[Tensor], rules: LayerRules, keys: Tensor | None) -> NativeLayer:
        """Of weights in the order of `LearningLayer`."""
        where = [each.data_ptr() for each in weights]
        maps, norms = where[: 2 * NUM_MAPS], where[2 * NUM_MAPS :]
        hidden, inner = weights[6].shape  # down: (H, F)
        template = _without_weights(rules, hidden, inner, has_words=keys is not None)
        layer = NativeLayer.from_buffer_copy(template)
        layer.weights[:], layer.biases[:] = maps[::2], maps[1::2]
        for norm, weight, bias in zip(layer.norms, norms[::2], norms[1::2], strict=True):
            norm.weight, norm.bias = weight, bias
        return layer


@lru_cache(maxsize=256)
def _without_weights(rules: LayerRules, hidden: int, inner: int, *, has_words: bool) -> NativeLayer:
    """All of a layer but where its weights lie: every step asks for a copy of it."""
    return NativeLayer(
        norms=(NativeNorm * NUM_NORMS)(*(NativeNorm(epsilon=each) for each in rules.epsilons)),
        rules=NativeRules.of(rules.attention, hidden, has_words=has_words),
        dropout=NativeDropout.of(rules.probability, has_words=has_words),
        sites=(ctypes.c_uint32 * SITES_PER_LAYER)(
            *(site_number(rules.number, site) for site in range(SITES_PER_LAYER))
        ),
        hidden=hidden,
        inner=inner,
    )


class NativeInput(ctypes.Structure):
    """`Input` of the source."""

    _fields_ = (
        ("hidden", ctypes.c_void_p),
        ("sequences", NativeSequences),
        *pointers("keys", "kept"),
    )

    @staticmethod
    def of(hidden: Tensor, keys: Tensor | None, rows: Tensor | None, stream: Stream) -> NativeInput:
        """Of (T, H) states and (R,) rising rows; without what is kept."""
        sequences = NativeSequences.of(stream, rows)
        return NativeInput(hidden.data_ptr(), sequences, pointer(keys), None)


class NativeGradients(ctypes.Structure):
    """`Gradients` of the source."""

    _fields_ = (
        ("weights", ctypes.c_void_p * NUM_MAPS),
        ("biases", ctypes.c_void_p * NUM_MAPS),
        ("norms", ctypes.c_void_p * NUM_NORMS),
    )

    @staticmethod
    def of(gradients: Sequence[Tensor]) -> NativeGradients:
        """In the order of `LearningLayer`; both of a norm are one (2, H), the bias behind."""
        where = [each.data_ptr() for each in gradients]
        maps, norms = where[: 2 * NUM_MAPS], where[2 * NUM_MAPS :]
        return NativeGradients(
            (ctypes.c_void_p * NUM_MAPS)(*maps[::2]),
            (ctypes.c_void_p * NUM_MAPS)(*maps[1::2]),
            (ctypes.c_void_p * NUM_NORMS)(*norms[::2]),
        )


def source_of(hidden: Tensor) -> Path:
    """Of the functions for numbers of that type, which `may_suit` has looked at."""
    return _SOURCES[hidden.dtype]


def may_suit(hidden: Tensor) -> bool:
    """Whether it is worth looking at layers."""
    return learns(hidden, *_SOURCES) and (hidden.dtype != torch.float32 or has_long_vectors())


def suits(
    layers: Sequence[LearningLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> bool:
    """Whether the functions are there for all these weights, somebody learns them, and it pays."""
    weights = [each for layer in layers for each in layer.weights]
    others = [] if rows is None else [rows]
    return (
        may_suit(hidden)
        and all(_is_taken(each, hidden) for each in layers)
        and hidden.shape == (stream.num_rows, hidden.shape[-1])
        and hidden.shape[0] > 0
        and stream.longest <= LONGEST
        and (rows is None or (rows.dtype == torch.int64 and rows.shape[0] > 0))
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and has_fast_products(source_of(hidden), hidden, of_bfloat16=hidden.dtype == torch.bfloat16)
        and takes(source_of(hidden), hidden, stream.first_rows, *others, *weights)
    )


def _is_taken(layer: LearningLayer, hidden: Tensor) -> bool:
    """Whether it is so wide, of sizes and types that the functions take, and learned."""
    weights, rules, width = layer.weights, layer.rules, hidden.shape[-1]
    inner, num_heads = weights[4].shape[0], rules.attention.num_heads
    for number, each in enumerate(weights):  # one loop: a short step waits for it
        kind = hidden.dtype if number < 2 * NUM_MAPS else torch.float32
        if each.dtype != kind or not each.requires_grad or not each.is_contiguous():
            return False
    return (
        rules.activation == "gelu"
        and (hidden.dtype != torch.float32 or width * max(3 * width, inner) <= MOST_NUMBERS)
        and weights[-1].shape == (width,)
        and width % _PANEL == inner % _PANEL == width % (_BAND * num_heads) == 0
        and are_of_one_layer(weights)
    )
