"""Hidden states through layers of a GPU: of few tokens by CUDA graphs, else layer by layer.

A step of few tokens waits for Python and launches, not for the GPU: BASE has some 450 of them,
there and back, of ten microseconds each. So what the layers do to batches of a size is captured
once and replayed (`gpu_graphs`): switched off as long as no GPU has run it, see `MOST_STATES`. One
batch is under way at a time: whoever goes forward before another one has gone back goes layer by
layer, as do large batches, whose kernels take longer than their launches, and float32.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model import gpu_layer
from bertsmith.model.first_order import first_order
from bertsmith.model.gpu_graphs import Kept, Pair, Size
from bertsmith.model.gpu_room import Room
from bertsmith.model.layer_rules import NUM_WEIGHTS, LearningLayer
from bertsmith.model.stream import Stream

MOST_STATES = 0
"""Numbers of hidden states of a batch that graphs take. None yet: they are tested without a GPU, as
far as that goes, and on one by tests that have not run. Then 2**25, of more than which kernels take
longer than their launches."""
MOST_PAIRS = 64
"""Sizes that are remembered; of one more, what was asked for longest ago is forgotten."""
_HALF_BYTES = 2

_of_first: weakref.WeakKeyDictionary[nn.Module, dict[int, Graphs]] = weakref.WeakKeyDictionary()
"""By the first layer, and how many follow it."""


def may_suit(hidden: Tensor) -> bool:
    """Whether it is worth asking for several layers."""
    return (
        gpu_layer.may_suit(hidden)
        and hidden.element_size() == _HALF_BYTES
        and hidden.numel() <= MOST_STATES
    )


def suits(layers: Sequence[LearningLayer], hidden: Tensor) -> bool:
    """Whether kernels are there for all of them."""
    return all(gpu_layer.suits(hidden, each.weights, each.rules) for each in layers)


def through(
    first: nn.Module,
    layers: Sequence[LearningLayer],
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
) -> Tensor:
    """(T, H) hidden states -> (T, H), or of (R,) `rows` of the last layer alone, (R, H).

    `first` is the module of the first layer: with it goes what is remembered.
    """
    if torch.is_grad_enabled() and _is_kept_otherwise():
        return layer_by_layer(layers, hidden, stream, rows)
    known = _of_first.setdefault(first, {})
    graphs = known.get(len(layers))
    if graphs is None or not graphs.are_of(layers):
        graphs = known[len(layers)] = Graphs(layers)
    states = graphs.through(hidden, stream, rows)
    return layer_by_layer(layers, hidden, stream, rows) if states is None else states


def layer_by_layer(
    layers: Sequence[LearningLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> Tensor:
    """The same without graphs."""
    for number, each in enumerate(layers, 1):
        asked = rows if number == len(layers) else None
        hidden = gpu_layer.through(hidden, stream, asked, each.weights, each.rules)
    return hidden


class _Turn:
    """One batch on its way: graphs keep its numbers for as long as somebody holds this."""


class Graphs:
    """Of some layers, for all sizes."""

    def __init__(self, layers: Sequence[LearningLayer]) -> None:
        self.layers = list(layers)
        self._places = _places(layers)
        self._room = Room(layers[0].weights[0].device)
        self._pairs: dict[object, Pair] = {}
        self._pool: Any = None
        self._latest: weakref.ref[_Turn] | None = None
        self._has_to_return = False
        self._captures = True
        self._lock = threading.Lock()

    def are_of(self, layers: Sequence[LearningLayer]) -> bool:
        """Whether these weights still lie where graphs look for them, under the same rules."""
        is_same = all(a.rules == b.rules for a, b in zip(layers, self.layers, strict=True))
        return is_same and _places(layers) == self._places

    def through(self, hidden: Tensor, stream: Stream, rows: Tensor | None) -> Tensor | None:
        """As the function of this name; None while another batch has yet to go back."""
        if not torch.is_grad_enabled():
            with self._lock:
                return None if self._is_under_way else self._there(hidden, stream, rows)[1]
        weights = [weight for each in self.layers for weight in each.weights]
        with self._lock:
            if self._is_under_way:
                return None
            turn = _Turn()
            self._latest, self._has_to_return = weakref.ref(turn), True
        states: Tensor = _Replayed.apply(hidden, self, turn, stream, rows, *weights)  # type: ignore[no-untyped-call]
        return states

    def there(
        self, hidden: Tensor, stream: Stream, rows: Tensor | None
    ) -> tuple[Pair, Tensor, Kept]:
        """The batch's pair, (R, H) states and what was kept."""
        with self._lock:
            return self._there(hidden, stream, rows, is_learning=True)

    def back(
        self, turn: _Turn, pair: Pair, gradient: Tensor, num_rows: int, kept: Kept
    ) -> tuple[Tensor, list[Tensor]]:
        """As `Pair.back`. Raises RuntimeError where another batch has gone forward since."""
        with self._lock:
            if self._latest is None or self._latest() is not turn:
                raise RuntimeError(
                    "these layers have read another batch since: go back through each batch once, "
                    "before the next one goes forward"
                )
            self._has_to_return = False
            return pair.back(gradient, num_rows, kept)

    @property
    def _is_under_way(self) -> bool:
        """Whether a batch has yet to go back, or may still."""
        return self._has_to_return and self._latest is not None and self._latest() is not None

    def _there(
        self, hidden: Tensor, stream: Stream, rows: Tensor | None, *, is_learning: bool = False
    ) -> tuple[Pair, Tensor, Kept]:
        size = Size.of(stream, rows, is_learning=is_learning)
        device = hidden.device
        key = (size, torch.cuda.current_stream(device).cuda_stream if hidden.is_cuda else 0)
        pair = self._pairs.pop(key, None)
        if pair is None:
            with torch.inference_mode(False), torch.no_grad():  # or no other mode could write to it
                pair = Pair(self.layers, size, self._room)
        self._pairs[key] = pair  # the latest stands last
        if len(self._pairs) > MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]
        if self._pool is None and hidden.is_cuda:
            self._pool = torch.cuda.graph_pool_handle()
        given = (hidden, stream, rows)
        try:
            states, kept = pair.there(*given, self._pool if self._captures else None)
        except torch.AcceleratorError as error:
            logging.getLogger(__name__).warning("warning: no CUDA graphs here: %s", error)
            self._captures = False
            states, kept = pair.there(*given, None)
        return pair, states, kept


class _Replayed(torch.autograd.Function):
    """Of (T, H) hidden states and all weights."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        graphs: Graphs,
        turn: _Turn,
        stream: Stream,
        rows: Tensor | None,
        *weights: Tensor,
    ) -> Tensor:
        pair, states, kept = graphs.there(hidden, stream, rows)
        ctx.save_for_backward(*weights, *(each for of_layer in kept for each in of_layer))
        ctx.graphs, ctx.turn, ctx.pair, ctx.num_rows = graphs, turn, pair, len(hidden)
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # torch says here where weights have changed since
        num_layers = len(ctx.graphs.layers)
        flat = saved[num_layers * NUM_WEIGHTS :]
        count = len(flat) // num_layers
        kept = [flat[at : at + count] for at in range(0, len(flat), count)] if flat else []
        given = (ctx.turn, ctx.pair, gradients[0], ctx.num_rows, kept)
        grad_hidden, of_weights = ctx.graphs.back(*given)
        return grad_hidden, None, None, None, None, *of_weights


def _is_kept_otherwise() -> bool:
    """Whether somebody else keeps what the way back asks for, as who computes it anew does."""
    return torch._C._autograd._top_saved_tensors_default_hooks(False) is not None


def _places(layers: Sequence[LearningLayer]) -> list[int]:
    return [weight.data_ptr() for each in layers for weight in each.weights]
