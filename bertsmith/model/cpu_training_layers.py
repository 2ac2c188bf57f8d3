"""Hidden states through layers that learn, on a CPU: several in one function, there and back.

`cpu_training_layer` says what they take, and what the definition is. All that Python has to do is
done before the first layer is called: after a call the processor's caches hold other numbers than
its own, which it then waits for.

Legend: T tokens, R rows asked for, H hidden size, L layers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from bertsmith.model import cpu_training_layer
from bertsmith.model.cpu_training_layer import (
    NativeGradients,
    NativeInput,
    NativeLayer,
    source_of,
)
from bertsmith.model.first_order import first_order
from bertsmith.model.layer_rules import (
    NUM_MAPS,
    NUM_NORMS,
    NUM_WEIGHTS,
    LayerRules,
    LearningLayer,
)
from bertsmith.model.stream import Stream
from bertsmith.native import call, pointer, room

MOST_STATES, MOST_WEIGHTS = 2**23, 2**25
"""Numbers of hidden states and of weights of several layers: what is kept of the former, some 30
bytes a number (60 in float32), and gradients of the latter lie in memory together until the last
layer has gone back. Where there are more, Python takes a hundredth of the time."""


def may_suit(hidden: Tensor, num_layers: int = 1) -> bool:
    """Whether it is worth asking for so many layers in one function."""
    return cpu_training_layer.may_suit(hidden) and (
        num_layers == 1 or num_layers * hidden.numel() <= MOST_STATES
    )


def suits(
    layers: Sequence[LearningLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> bool:
    """Whether the functions are there for all of them, and several are not too large."""
    num_weights = sum(weight.numel() for each in layers for weight in each.weights)
    if len(layers) > 1 and num_weights > MOST_WEIGHTS:
        return False
    return cpu_training_layer.suits(layers, hidden, stream, rows)


def through(
    layers: Sequence[LearningLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> Tensor:
    """(T, H) hidden states -> (T, H), or of (R,) rows of the last layer alone, (R, H).

    Raises IndexError for a row that belongs to no sequence.
    """
    weights = [weight for each in layers for weight in each.weights]
    rules = [each.rules for each in layers]
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
    output: Tensor = _TrainingLayers.apply(*given)  # type: ignore[no-untyped-call]
    return output


class _TrainingLayers(torch.autograd.Function):
    """Of (T, H) hidden states, (T,) row keys of dropout and rows in rising order."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        keys: Tensor | None,
        rows: Tensor | None,
        stream: Stream,
        rules: Sequence[LayerRules],
        *weights: Tensor,
    ) -> Tensor:
        layers, asked = _natives(weights, rules, keys), _asked(rows, len(rules))
        rooms = [_room(hidden, each, stream) for each in asked]
        *states, output = hidden, *rooms  # (T, H) each, (R, H)
        inputs = _inputs(states, keys, asked, stream)
        kept = [_kept(hidden, *each) for each in zip(layers, inputs, strict=True)]
        outputs = map(pointer, [*states[1:], output])
        calls = [*zip(map(ctypes.byref, layers), map(ctypes.byref, inputs), outputs, strict=True)]
        for each in calls:
            call(source_of(hidden), "training_layer_forward", hidden, *each)
        ctx.save_for_backward(*states, *kept, keys, rows, *weights)
        ctx.stream, ctx.rules = stream, rules
        return output

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        count, stream, saved = len(ctx.rules), ctx.stream, ctx.saved_tensors
        states, kept, (keys, rows, *weights) = (
            saved[:count], saved[count : 2 * count], saved[2 * count :],
        )  # fmt: skip
        layers = _natives(weights, ctx.rules, keys)
        inputs = _inputs(states, keys, _asked(rows, count), stream)
        made = _rooms_for_gradients(_of_each(weights))
        told = [NativeGradients.of(each) for each in made]
        rooms = [_room(states[0], None, stream) for _ in range(min(count, 2))]  # (T, H), in turns
        arrived = [gradients[0].contiguous(), *(rooms[number % 2] for number in range(count))]
        calls = []
        for number, ways in zip(reversed(range(count)), pairwise(arrived), strict=True):
            inputs[number].kept = kept[number].data_ptr()
            layer, of, to = map(ctypes.byref, (layers[number], inputs[number], told[number]))
            calls.append((layer, of, *map(pointer, ways), to))
        for each in calls:
            call(source_of(states[0]), "training_layer_backward", states[0], *each)
        return arrived[-1], None, None, None, None, *(each for own in made for each in own)


def _of_each(weights: Sequence[Tensor]) -> list[Sequence[Tensor]]:
    """Each layer's."""
    return [weights[at : at + NUM_WEIGHTS] for at in range(0, len(weights), NUM_WEIGHTS)]


def _natives(
    weights: Sequence[Tensor], rules: Sequence[LayerRules], keys: Tensor | None
) -> list[NativeLayer]:
    each = zip(_of_each(weights), rules, strict=True)
    return [NativeLayer.of(own, its, keys) for own, its in each]


def _asked(rows: Tensor | None, num_layers: int) -> list[Tensor | None]:
    """Which rows each layer makes: all of them but the last."""
    return [*[None] * (num_layers - 1), rows]


def _inputs(
    states: Sequence[Tensor], keys: Tensor | None, asked: Sequence[Tensor | None], stream: Stream
) -> list[NativeInput]:
    """Each layer's, without what is kept."""
    each = zip(states, asked, strict=True)
    return [NativeInput.of(hidden, keys, rows, stream) for hidden, rows in each]


def _kept(hidden: Tensor, layer: NativeLayer, given: NativeInput) -> Tensor:
    """Where a layer keeps what its way back needs, and is told so."""
    told = (ctypes.byref(layer), ctypes.byref(given))
    kept = room(source_of(hidden), "training_layer_bytes", hidden, *told)
    given.kept = kept.data_ptr()
    return kept


def _room(hidden: Tensor, rows: Tensor | None, stream: Stream) -> Tensor:
    """Where (T, H) rows are written, or (R, H); spare rows are zero."""
    width = hidden.shape[1]
    if rows is None:
        return stream.room_for_rows(width, hidden)
    return hidden.new_empty((rows.shape[0], width))


def _rooms_for_gradients(layers: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """Of each layer's weights, in their order; those of norms are (2, H) each, side by side."""
    like, of_a_layer = layers[0][-1], 2 * NUM_NORMS
    of_norms = like.new_empty((len(layers) * of_a_layer, like.shape[0])).unbind()  # (H,) each
    return [
        [*map(torch.empty_like, own[: 2 * NUM_MAPS]), *of_norms[at : at + of_a_layer]]
        for own, at in zip(layers, range(0, len(of_norms), of_a_layer), strict=True)
    ]
