"""Hidden states of a packed stream -> the states of an LSTM that reads each sequence both ways.

What the paper puts on top of a left-to-right model (Table 5) and of frozen features (Table 7). No
padding: sequences are read side by side, each to its own end. torch's `nn.LSTM` holds the weights
and is the definition; on a CPU, where it adds up the gradients of its matrices token after token,
they are read by `recurrence`, whose gradients have none of their own.

Source: Devlin et al. 2018, sections 5.1 and 5.3; Graves and Schmidhuber 2005.

Legend: T tokens, N sequences, H hidden size, D states of one direction.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from bertsmith.model.config import Direction
from bertsmith.model.recurrence import places_of, reading_order, recur
from bertsmith.model.stream import Stream

_DIRECTIONS: tuple[Direction, ...] = ("left_to_right", "right_to_left")


class BiLstm(nn.Module):
    """Layers of an LSTM in both directions, each layer reading both directions of the one below."""

    def __init__(self, hidden_size: int, size: int, num_layers: int) -> None:
        """Of `size` D states a direction."""
        super().__init__()
        self.size = size
        self.lstm = nn.LSTM(hidden_size, size, num_layers, bidirectional=True)

    def forward(self, hidden: Tensor, stream: Stream) -> Tensor:
        """(T, H) hidden states -> (T, 2D): the left-to-right states, then the right-to-left."""
        assert len(hidden) == stream.num_tokens
        if hidden.device.type != "cpu":
            return self._by_torch(hidden, stream)
        orders = [reading_order(stream, way) for way in _DIRECTIONS]
        for layer in range(self.lstm.num_layers):
            weights = self.lstm.all_weights[2 * layer : 2 * layer + 2]
            sides = [
                _read(hidden, order[: len(hidden)], counts, of_side)
                for (order, counts), of_side in zip(orders, weights, strict=True)
            ]
            hidden = torch.cat(sides, dim=1)  # (T, 2D)
        return hidden

    def _by_torch(self, hidden: Tensor, stream: Stream) -> Tensor:
        """The same by torch's own layer, which on a GPU is one call."""
        lengths = (stream.last_rows - stream.first_rows + 1).tolist()
        packed = pack_sequence(list(torch.split(hidden, lengths)), enforce_sorted=False)
        states, _ = self.lstm(packed)
        return torch.cat(unpack_sequence(states))  # (T, 2D)

    def pool(self, states: Tensor, stream: Stream) -> Tensor:
        """(T, 2D) states -> (N, 2D): of each direction the last that it reads.

        The paper is silent on what classification reads of them.
        """
        forward = states.index_select(0, stream.last_rows)[:, : self.size]  # (N, D)
        backward = states.index_select(0, stream.first_rows)[:, self.size :]  # (N, D)
        return torch.cat([forward, backward], dim=1)  # (N, 2D)


def _read(hidden: Tensor, order: Tensor, counts: list[int], weights: Sequence[Tensor]) -> Tensor:
    """(T, W) of the layer below -> (T, D) of one direction of a layer, by its four weights."""
    into, across, *biases = weights
    sums = functional.linear(hidden.index_select(0, order), into, biases[0] + biases[1])  # (T, 4D)
    states = recur(sums, across, None, counts).to(hidden.dtype)  # (T, D)
    return states.index_select(0, places_of(order))
