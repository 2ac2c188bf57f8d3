"""A Transformer layer that learns, on a CPU that multiplies bfloat16: one call there, one back.

The functions of `cpu_training_layer.cpp` do all of a layer chunk by chunk, in bfloat16, so that a
step of few tokens does not wait for sixty calls from Python, and in one of many a chunk's rows are
still in the cache when the next product reads them. Values, gradients and dropout masks are those
of `layer.Layer` made of operators, which is the definition and takes what these do not: other
types, devices and processors, heads of other sizes than whole bands (cpu_bands.h), other
activations than GELU, weights that do not learn, and parts that somebody watches or changed.

Differs: GELU is made of the sums themselves, not of what they were rounded to, and its slope with
it, which is rounded; what comes to a hidden state from queries, keys, values and the residual is
added up before it is rounded. A bias may not be changed between the way there and the way back.
Reentrant checkpointing, which goes there first without a gradient, computes that pass by operators,
and so with other roundings.

Legend: T tokens, R rows asked for, H hidden size, F feed-forward size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.cpu_attention import LONGEST, NativeRules, NativeSequences
from bertsmith.model.cpu_norm import NativeNorm
from bertsmith.model.dropout import SITES_PER_LAYER, NativeDropout, site_number
from bertsmith.model.first_order import first_order
from bertsmith.model.layer_rules import NUM_MAPS, NUM_NORMS, LayerRules, are_of_one_layer
from bertsmith.model.stream import Stream
from bertsmith.native import call, has_fast_products, pointer, size, takes

SOURCE = Path(__file__).with_suffix(".cpp")
_PANEL, _BAND = 64, 32
"""What widths are multiples of, and those of heads."""
_LINE_BYTES = 64


class _Layer(ctypes.Structure):
    """`Layer` of the source."""

    _fields_ = (
        ("weights", ctypes.c_void_p * NUM_MAPS),
        ("biases", ctypes.c_void_p * NUM_MAPS),
        ("norms", NativeNorm * NUM_NORMS),
        ("rules", NativeRules),
        ("dropout", NativeDropout),
        ("sites", ctypes.c_uint32 * SITES_PER_LAYER),
        ("hidden", ctypes.c_int64),
        ("inner", ctypes.c_int64),
    )

    @staticmethod
    def of(weights: Sequence[Tensor], rules: LayerRules, keys: Tensor | None) -> _Layer:
        """Of weights in the order of `through`."""
        where = [each.data_ptr() for each in weights]
        maps, norms = where[: 2 * NUM_MAPS], where[2 * NUM_MAPS :]
        of_norms = zip(norms[::2], norms[1::2], rules.epsilons, strict=True)
        hidden = len(weights[-1])
        return _Layer(
            (ctypes.c_void_p * NUM_MAPS)(*maps[::2]),
            (ctypes.c_void_p * NUM_MAPS)(*maps[1::2]),
            (NativeNorm * NUM_NORMS)(*(NativeNorm(*each) for each in of_norms)),
            NativeRules.of(rules.attention, hidden, keys),
            NativeDropout.of(keys, rules.probability),
            (ctypes.c_uint32 * SITES_PER_LAYER)(
                *(site_number(rules.number, site) for site in range(SITES_PER_LAYER))
            ),
            hidden,
            len(weights[4]),
        )


class _Input(ctypes.Structure):
    """`Input` of the source."""

    _fields_ = (
        ("hidden", ctypes.c_void_p),
        ("sequences", NativeSequences),
        ("keys", ctypes.c_void_p),
        ("kept", ctypes.c_void_p),
    )


class _Gradients(ctypes.Structure):
    """`Gradients` of the source."""

    _fields_ = (
        ("weights", ctypes.c_void_p * NUM_MAPS),
        ("biases", ctypes.c_void_p * NUM_MAPS),
        ("norms", ctypes.c_void_p * NUM_NORMS),
    )


def may_suit(hidden: Tensor) -> bool:
    """Whether it is worth asking: gradients are wanted, of such numbers, by such a processor."""
    return (
        torch.is_grad_enabled()
        and hidden.dtype == torch.bfloat16
        and hidden.is_cpu
        and not torch.compiler.is_compiling()
    )


def suits(
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
    weights: Sequence[Tensor],
    rules: LayerRules,
) -> bool:
    """Whether the functions are there for these weights, somebody learns them, and it pays."""
    maps, norms = weights[: 2 * NUM_MAPS], weights[2 * NUM_MAPS :]
    width, inner, num_heads = len(norms[0]), len(maps[4]), rules.attention.num_heads
    others = [] if rows is None else [rows]
    return (
        may_suit(hidden)
        and rules.activation == "gelu"
        and all(each.requires_grad and each.is_contiguous() for each in weights)
        and all(each.dtype == torch.bfloat16 for each in maps)
        and all(each.dtype == torch.float32 for each in norms)
        and are_of_one_layer(weights)
        and hidden.shape == (len(stream.token_ids), width)
        and width % _PANEL == inner % _PANEL == width % (_BAND * num_heads) == 0
        and len(hidden) > 0
        and stream.longest <= LONGEST
        and (rows is None or (rows.dtype == torch.int64 and len(rows) > 0))
        and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
        and has_fast_products(SOURCE, hidden, of_bfloat16=True)
        and takes(SOURCE, hidden, stream.first_rows, *others, *weights)
    )


def through(
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
    weights: Sequence[Tensor],
    rules: LayerRules,
) -> Tensor:
    """(T, H) hidden states -> (T, H), or with (R,) `rows` of these alone, (R, H).

    `weights`: weight and bias of the maps to queries, keys and values, from contexts, up and down,
    and of both norms. Raises IndexError for a row that belongs to no sequence.
    """
    given = (hidden.contiguous(), stream.row_keys)
    if rows is None:
        return _apply(*given, None, stream, rules, *weights)
    rising, order = _in_order(rows)
    lowest, highest = int(rising[0]), int(rising[-1])
    if lowest < 0 or highest >= stream.num_tokens:
        raise IndexError(f"rows must be 0 to {stream.num_tokens - 1}: {lowest} to {highest}")
    output = _apply(*given, rising, stream, rules, *weights)
    return output if order is None else output.index_select(0, order.argsort())


def _in_order(rows: Tensor) -> tuple[Tensor, Tensor | None]:
    """(R,) rows rising, and the order that makes them so, or None where they were."""
    if bool((rows[1:] >= rows[:-1]).all()):
        return rows.contiguous(), None
    return rows.sort(stable=True)


def _apply(*given: Any) -> Tensor:
    output: Tensor = _TrainingLayer.apply(*given)  # type: ignore[no-untyped-call]
    return output


class _TrainingLayer(torch.autograd.Function):
    """Of (T, H) hidden states, (T,) row keys of dropout and rows in rising order."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        keys: Tensor | None,
        rows: Tensor | None,
        stream: Stream,
        rules: LayerRules,
        *weights: Tensor,
    ) -> Tensor:
        layer = _Layer.of(weights, rules, keys)
        given = _input(hidden, keys, rows, stream, None)
        count = size(
            SOURCE, "training_layer_bytes", hidden, ctypes.byref(layer), ctypes.byref(given)
        )
        kept = hidden.new_empty(count, dtype=torch.uint8)
        assert kept.data_ptr() % _LINE_BYTES == 0, "lines past the cache must be whole"
        given.kept = kept.data_ptr()
        output = _room(hidden, rows, stream)
        call(
            SOURCE,
            "training_layer_forward",
            hidden,
            ctypes.byref(layer),
            ctypes.byref(given),
            pointer(output),
        )
        ctx.save_for_backward(hidden, keys, rows, kept, *weights)
        ctx.stream, ctx.rules = stream, rules
        return output

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        hidden, keys, rows, kept, *weights = ctx.saved_tensors
        layer = _Layer.of(weights, ctx.rules, keys)
        given = _input(hidden, keys, rows, ctx.stream, kept)
        gradient = gradients[0].contiguous()
        grad_hidden = _room(hidden, None, ctx.stream)
        of_maps = [torch.empty_like(each) for each in weights[: 2 * NUM_MAPS]]
        of_norms = [hidden.new_empty((2, hidden.shape[1]), dtype=torch.float32) for _ in range(2)]
        where = [each.data_ptr() for each in of_maps]
        to = _Gradients(
            (ctypes.c_void_p * NUM_MAPS)(*where[::2]),
            (ctypes.c_void_p * NUM_MAPS)(*where[1::2]),
            (ctypes.c_void_p * NUM_NORMS)(*(each.data_ptr() for each in of_norms)),
        )
        call(
            SOURCE,
            "training_layer_backward",
            hidden,
            ctypes.byref(layer),
            ctypes.byref(given),
            pointer(gradient),
            pointer(grad_hidden),
            ctypes.byref(to),
        )
        rest = [each for of_norm in of_norms for each in of_norm.unbind()]
        return grad_hidden, None, None, None, None, *of_maps, *rest


def _room(hidden: Tensor, rows: Tensor | None, stream: Stream) -> Tensor:
    """Where (T, H) rows are written, or (R, H); spare rows are zero."""
    width = hidden.shape[1]
    if rows is None:
        return stream.room_for_rows(width, hidden)
    return hidden.new_empty((len(rows), width))


def _input(
    hidden: Tensor, keys: Tensor | None, rows: Tensor | None, stream: Stream, kept: Tensor | None
) -> _Input:
    where = None if kept is None else kept.data_ptr()
    return _Input(hidden.data_ptr(), NativeSequences.of(stream, rows), pointer(keys), where)
