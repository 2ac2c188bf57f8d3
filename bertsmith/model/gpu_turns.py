"""Batches that take turns through CUDA graphs of some layers, each size captured once it is known.

One batch is under way at a time: whoever goes forward before another one has gone back is sent
away. Graphs hold the memory of what they keep for the way back, step after step, so none is
captured where a step without it would not fit beside it, who finds no memory gets theirs, and they
give way to batches that are too large for them. What is captured, and how, stands in `gpu_graphs`
and `gpu_room`.

Legend: T tokens, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

import functools
import logging
import operator
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from bertsmith.model.first_order import first_order
from bertsmith.model.gpu_graphs import Kept, Pair, Size
from bertsmith.model.gpu_room import Pool, Room, has_room, reserved_bytes
from bertsmith.model.layer_rules import NUM_WEIGHTS, LearningLayer
from bertsmith.model.stream import Stream

Result = TypeVar("Result")

MOST_PAIRS = 64
"""Sizes that are remembered; of one more, what was asked for longest ago is forgotten."""
FEWEST_REPLAYS = 4
"""Of a capture: fewer are not thought to win back what it costs (not measured)."""


class _Turn:
    """One batch on its way: graphs keep its numbers for as long as somebody holds this."""


class Graphs:
    """Of some layers, for all sizes, on the stream on which they first read."""

    def __init__(self, layers: Sequence[LearningLayer]) -> None:
        self.layers = list(layers)
        self._places = _places(layers)
        self._room = Room(layers[0].weights[0].device)
        self._pairs: dict[Size, Pair] = {}
        self._pool: Pool | None = None
        self._pool_bytes = 0
        self._stream: torch.cuda.Stream | None = None
        self._latest: weakref.ref[_Turn] | None = None
        self._has_to_return = False
        self._captures = self._room.device.type == "cuda"
        self._num_ahead = 0  # replays since they last gave way, beyond the fewest of each capture
        self._lock = threading.Lock()

    def are_of(self, layers: Sequence[LearningLayer]) -> bool:
        """Whether these are their weights, where graphs look for them, under the same rules."""
        return (
            [each.rules for each in layers] == [each.rules for each in self.layers]
            # Others may lie in the same places: then gradients are to be theirs.
            and all(map(operator.is_, _weights(layers), _weights(self.layers)))
            and _places(layers) == self._places
        )

    def through(self, hidden: Tensor, stream: Stream, rows: Tensor | None) -> Tensor | None:
        """(T, H) hidden states -> (T, H), or of (R,) `rows` of the last layer alone, (R, H).

        None while another batch has yet to go back, and on another stream than the first: what
        graphs know lies in one place.
        """
        weights = _weights(self.layers)
        with self._lock:
            if self._is_under_way or not self._is_its_stream():
                return None
            self._latest = None
            if not torch.is_grad_enabled():
                return self._forward(hidden, stream, rows, is_learning=False)[1]
            turn = _Turn()
            self._latest, self._has_to_return = weakref.ref(turn), True
        states: Tensor = _Replayed.apply(hidden, self, turn, stream, rows, *weights)  # type: ignore[no-untyped-call]
        return states

    def forward(
        self, hidden: Tensor, stream: Stream, rows: Tensor | None
    ) -> tuple[Pair, Tensor, Kept]:
        """The batch's pair, (R, H) states and what was kept."""
        with self._lock:
            return self._forward(hidden, stream, rows, is_learning=True)

    def backward(
        self, turn: _Turn, pair: Pair, gradient: Tensor, num_rows: int, kept: Kept
    ) -> tuple[Tensor, list[Tensor]]:
        """As `Pair.backward`. Raises RuntimeError where what it would read is no longer there."""
        with self._lock:
            if self._latest is None or self._latest() is not turn:
                raise RuntimeError(
                    "these layers have read another batch since: go back through each batch "
                    "before the next one goes forward"
                )
            if _places(self.layers) != self._places:
                raise RuntimeError("weights were moved between a batch's way forward and back")
            self._has_to_return = False
            if pair.has_graphs:  # which hold what was kept
                return pair.backward(gradient, num_rows, kept)
            return self._with_memory(lambda: pair.backward(gradient, num_rows, kept))

    def give_way(self) -> None:
        """Ends what was captured, before a batch that is too large for it is read.

        Not while a batch has yet to go back, which is held there. Where such batches come so often
        that capturing does not pay, it was the last time.
        """
        with self._lock:
            if self._is_under_way or not self._let_go():
                return
            self._latest = None  # what could go back again lay in their memory
            if self._num_ahead < 0:
                self._give_up("batches that are too large for them come too often")
            self._num_ahead = 0

    @property
    def _is_under_way(self) -> bool:
        """Whether a batch has yet to go back, or may still."""
        return self._has_to_return and self._latest is not None and self._latest() is not None

    def _is_its_stream(self) -> bool:
        if self._room.device.type != "cuda":
            return True
        stream = torch.cuda.current_stream(self._room.device)
        self._stream = stream if self._stream is None else self._stream
        return stream == self._stream

    def _forward(
        self, hidden: Tensor, stream: Stream, rows: Tensor | None, *, is_learning: bool
    ) -> tuple[Pair, Tensor, Kept]:
        size = Size.of(stream, rows, is_learning=is_learning)
        pair = self._pairs.pop(size, None)
        if pair is None:
            with torch.inference_mode(False), torch.no_grad():  # or no other mode could write to it
                pair = self._with_memory(lambda: Pair(self.layers, size, self._room))
        self._pairs[size] = pair  # the latest stands last
        if len(self._pairs) > MOST_PAIRS:
            del self._pairs[next(iter(self._pairs))]
        if self._captures and pair.may_be_captured:
            self._capture(pair)
        self._num_ahead += pair.has_graphs
        return pair, *self._with_memory(lambda: pair.forward(hidden, stream, rows))

    def _capture(self, pair: Pair) -> None:
        """Where that fails none is captured from then on, and layers go on by hand."""
        device = self._room.device
        if not any(each.has_graphs for each in self._pairs.values()):
            self._pool, self._pool_bytes = None, 0  # their memory went with the last of them
        if not has_room(device, self._pool_bytes + pair.num_kept_bytes):
            self._give_up("a step without them would not fit into memory beside them")
            return
        torch.cuda.empty_cache()  # what is free elsewhere is not the pool's
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        before = reserved_bytes(device)
        self._num_ahead -= FEWEST_REPLAYS
        try:
            pair.capture(self._pool)
        except RuntimeError as error:
            self._give_up(next(iter(str(error).splitlines()), "no reason given"))
        self._pool_bytes += reserved_bytes(device) - before

    def _with_memory(self, work: Callable[[], Result]) -> Result:
        """What it gives; where memory is missing, in that of all graphs, of which none is left."""
        try:
            return work()
        except torch.OutOfMemoryError:
            if not self._let_go():
                raise
            self._give_up("the memory that they held was needed")
        torch.cuda.empty_cache()
        return work()

    def _let_go(self) -> bool:
        """Whether any were captured, of which none is left."""
        captured = [each for each in self._pairs.values() if each.has_graphs]
        if captured and self._stream is not None:
            # The last may still be replayed there; who waits for a device ends others' captures.
            self._stream.synchronize()
        for each in captured:
            each.forget()
        return bool(captured)

    def _give_up(self, reason: str) -> None:
        """From now on none is captured."""
        self._captures = False
        _warn_once(reason)


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
        pair, states, kept = graphs.forward(hidden, stream, rows)
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
        grad_hidden, of_weights = ctx.graphs.backward(*given)
        return grad_hidden, None, None, None, None, *of_weights


@functools.cache
def _warn_once(reason: str) -> None:
    logging.getLogger(__name__).warning("warning: no CUDA graphs from here on: %s", reason)


def _weights(layers: Sequence[LearningLayer]) -> list[Tensor]:
    return [weight for each in layers for weight in each.weights]


def _places(layers: Sequence[LearningLayer]) -> list[tuple[int, torch.dtype]]:
    return [(weight.data_ptr(), weight.dtype) for weight in _weights(layers)]
