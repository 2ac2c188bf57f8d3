"""CUDA graphs of a model's layers, a pair for each size of batch, and the memory that they know.

A graph reads and writes where it did when it was captured. So what comes is copied to a place of
its own, in round numbers of rows and sequences: sequences that nobody reads end the stream. What
such a call computes does not depend on whether a graph does it.

Legend: T rows, N sequences, R rows asked for (all T if none are named), H hidden size; T', N' and
R' round numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray, starts_of
from bertsmith.model import gpu_layer
from bertsmith.model.gpu_room import Gradients, Pool, Room, bytes_of, captured, put
from bertsmith.model.layer_rules import LearningLayer
from bertsmith.model.stream import Stream, rounded

_FILLER_ROWS = 64
"""Rows of a sequence that nobody reads: no longer than kernels of the shortest ones take."""
_FEWEST_SEQUENCES = 16
_LENGTHS = (64, 128)
"""Of the longest sequence, as kernels are chosen; beyond, multiples of the last."""


Kept = list[list[Any]]
"""What each layer's way back asks for, layer by layer."""


class Size(NamedTuple):
    """What graphs are captured for."""

    num_rows: int
    """T'."""
    num_sequences: int
    """N', a power of two, as there are many numbers of them."""
    longest: int
    """Tokens of a sequence at most."""
    num_asked: int | None
    """R'; None where all rows are."""
    has_dropout: bool
    is_learning: bool

    @staticmethod
    def of(stream: Stream, rows: Tensor | None, *, is_learning: bool) -> Size:
        """The one that such a batch is filled up to."""
        num_tokens = len(stream.token_ids)
        num_rows = rounded(num_tokens)
        num_fillers = -(-(num_rows - stream.num_tokens) // _FILLER_ROWS)
        fewest = max(_FEWEST_SEQUENCES, len(stream.lengths) + num_fillers)
        step = _LENGTHS[-1]
        longest = -(-stream.longest // step) * step
        return Size(
            num_rows,
            1 << (fewest - 1).bit_length(),
            next((each for each in _LENGTHS if stream.longest <= each), longest),
            None if rows is None else rounded(len(rows)),
            stream.row_keys is not None,
            is_learning,
        )


class Pair:
    """Layers there and back for batches of one size: by hand first, by graphs from then on."""

    def __init__(self, layers: Sequence[LearningLayer], size: Size, room: Room) -> None:
        like = layers[0].weights[0]  # (3H, H)
        width, dtype = like.shape[1], like.dtype
        num_asked = size.num_rows if size.num_asked is None else size.num_asked
        self._layers, self._size = layers, size
        self._hidden = room.of("hidden", (size.num_rows, width), dtype)
        self._edges = room.of(f"edges {size.num_sequences}", (2, size.num_sequences), torch.int64)
        self._keys = room.of("keys", (size.num_rows,), torch.int32) if size.has_dropout else None
        self._rows = None if size.num_asked is None else room.of("rows", (num_asked,), torch.int64)
        self._states = room.of("states", (num_asked, width), dtype)
        if size.is_learning:
            self._gradient = room.of("gradient", (num_asked, width), dtype)
            self._grad_hidden = room.of("grad_hidden", (size.num_rows, width), dtype)
            self._of_weights = Gradients(layers, room)
        self._graphs: list[torch.cuda.CUDAGraph] = []
        self._has_run = False
        self.num_kept_bytes = 0
        """That it keeps for the way back, as found when it was done by hand."""
        self._stream = self._filled_stream()

    @property
    def has_graphs(self) -> bool:
        """Whether it was captured."""
        return bool(self._graphs)

    @property
    def may_be_captured(self) -> bool:
        """Whether all that it does was done by hand: kernels that are built meanwhile cannot be."""
        return self._has_run and not self._graphs

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None) -> tuple[Tensor, Kept]:
        """(T, H) hidden states -> (R, H), and what `backward` asks for where no graph keeps it."""
        put(hidden, self._hidden)
        put(stream.row_keys, self._keys)
        put(rows, self._rows)
        self._edges.copy_(self._edges_of(stream), non_blocking=True)
        kept: Kept = []
        if self._graphs:
            self._graphs[0].replay()
        else:
            kept = self._forward()
            self.num_kept_bytes = bytes_of(kept)
            self._has_run = self._has_run or not self._size.is_learning
        count = len(hidden) if rows is None else len(rows)
        return self._states[:count].clone(), kept

    def backward(self, gradient: Tensor, num_rows: int, kept: Kept) -> tuple[Tensor, list[Tensor]]:
        """The gradient of the states, (R, H) -> that of (T, H) hidden states, and of all weights.

        `kept` is what `forward` gave, of the last call; as often as anybody likes.
        """
        put(gradient, self._gradient)
        if self._graphs:
            self._graphs[1].replay()
        else:
            self._backward(kept)
            self._has_run = True
        return self._grad_hidden[:num_rows].clone(), self._of_weights.copied()

    def capture(self, pool: Pool) -> None:
        """From the next call on graphs do it, in memory of that pool.

        What they keep between the two is given to other graphs of the pool too: none runs between.
        Raises RuntimeError where it cannot be.
        """
        kept: Kept = []
        graphs = [captured(self._hidden.device, pool, lambda: kept.extend(self._forward()))]
        if self._size.is_learning:
            # Whoever goes back twice finds it all there: nothing is laid over it.
            graphs.append(captured(self._hidden.device, pool, lambda: self._backward(kept)))
        self._graphs = graphs

    def forget(self) -> None:
        """From the next call on it is done by hand again."""
        self._graphs = []

    def _forward(self) -> Kept:
        kept: Kept = []
        hidden = self._hidden
        for number, layer in enumerate(self._layers, 1):
            rows = self._rows if number == len(self._layers) else None
            given = (hidden, self._keys, rows, self._stream, layer.weights, layer.rules)
            hidden, of_layer = gpu_layer.forward(*given)
            if self._size.is_learning:
                kept.append(of_layer)
        self._states.copy_(hidden)
        return kept

    def _backward(self, kept: Kept) -> None:
        gradient = self._gradient
        for number in reversed(range(len(self._layers))):
            layer = self._layers[number]
            given = (kept[number], self._stream, layer.weights, layer.rules)
            gradient, of_weights = gpu_layer.backward(gradient, *given)
            self._of_weights.put(number, of_weights)
        self._grad_hidden.copy_(gradient)

    def _filled_stream(self) -> Stream:
        """Of round numbers: nothing but its size and edges is looked at."""
        nobody = torch.empty(self._size.num_rows, dtype=torch.int64, device="meta")
        return Stream(
            num_tokens=self._size.num_rows,
            is_rounded=False,
            token_ids=nobody,
            segment_ids=nobody,
            positions=nobody,
            first_rows=self._edges[0],
            last_rows=self._edges[1],
            lengths=np.array([self._size.longest]),
            row_keys=self._keys,
        )

    def _edges_of(self, stream: Stream) -> Tensor:
        """(2, N') first and last rows: of all sequences, of fillers, and of sequences of no row."""
        num_spare = self._size.num_rows - stream.num_tokens
        fillers = np.full(-(-num_spare // _FILLER_ROWS), _FILLER_ROWS)
        fillers[-1:] -= len(fillers) * _FILLER_ROWS - num_spare
        lengths: IntArray = np.concatenate([stream.lengths, fillers])
        edges = np.zeros((2, self._size.num_sequences), dtype=np.int64)
        edges[0, : len(lengths)] = starts_of(lengths)
        edges[1] = edges[0] - 1
        edges[1, : len(lengths)] += lengths
        found = torch.from_numpy(edges)
        return found.pin_memory() if self._hidden.is_cuda else found
