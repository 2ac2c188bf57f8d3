"""The encoder: a packed stream -> one hidden state a token, and one vector a sequence.

It does not know what is learned from them.

Source: Devlin et al. 2018, section 3; google-research/bert, modeling.py, BertModel.

Legend: T tokens, R rows, N sequences, H hidden size, L layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from bertsmith.cores import keep_apart
from bertsmith.model.config import BertConfig
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.layer import Layer
from bertsmith.model.layers import from_ids, in_turn, prepare
from bertsmith.model.lstm_layer import LstmLayer
from bertsmith.model.stream import Stream
from bertsmith.model.two_way import TwoWayEmbeddings, TwoWayLayer


class Bert(nn.Module):
    """Embeddings, L layers and the pooler."""

    def __init__(self, config: BertConfig, *, with_pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = _embeddings(config)
        self.layers = nn.ModuleList(
            _layer(config, number) for number in range(config.num_hidden_layers)
        )
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size) if with_pooler else None

    def forward(self, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """The final hidden states, (T, H); with `rows` (R,), of these alone, (R, H).

        Nobody reads the last layer's other rows, so most of that layer's work is saved.
        """
        (hidden,) = self.chosen_states(stream, (len(self.layers),), rows)
        return hidden

    def hidden_states(self, stream: Stream) -> tuple[Tensor, ...]:
        """The embedding output and every layer's output: L + 1 tensors of (T, H)."""
        return self.chosen_states(stream, range(len(self.layers) + 1))

    def chosen_states(
        self, stream: Stream, numbers: Sequence[int], rows: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Of the L + 1 states those of these numbers, in their order: of (T, H), or (R, H).

        Layers above the highest of them are left out. Raises ValueError for a number of no state.
        """
        layers = list(self.layers)
        highest, most = max(numbers), len(layers)
        if min(numbers) < 0 or highest > most:
            raise ValueError(f"states are numbered 0 to {most}, found {[*numbers]}")
        if stream.token_ids.is_cpu:
            keep_apart()
        count = stream.num_tokens if rows is None else rows.shape[0]
        rows = stream.with_spare(rows)
        stops = sorted({0, *numbers})
        first = min(stops[1:], default=0)
        both = from_ids(self.embeddings, layers[:first], stream, rows if first == highest else None)
        hidden: Tensor = self.embeddings(stream) if both is None else both[0]
        found = {0: _picked(hidden, rows)} if 0 in numbers else {}
        for start, stop in pairwise(stops):
            asked = rows if stop == highest else None
            if both is not None and start == 0:
                hidden = both[1]
            else:
                hidden = in_turn(layers[start:stop], hidden, stream, asked)
            found[stop] = hidden if stop == highest else _picked(hidden, rows)
        return tuple(_first(found[number], count) for number in numbers)

    def prepare(self) -> None:
        """Makes what answers need of layers that were laid out, which else the first one does.

        With a pooler that is what its rows need too. With all of this thread's threads, and before
        others are forked from this process.
        """
        prepare(self.embeddings, list(self.layers), is_pooled=self.pooler is not None)

    def pool(self, hidden: Tensor, stream: Stream) -> Tensor:
        """(T, H) final hidden states -> (N, H): dense and tanh over one token of each sequence."""
        return self.pool_rows(hidden.index_select(0, self.pooled_rows(stream)))  # (N, H)

    def pooled_rows(self, stream: Stream) -> Tensor:
        """(N,) rows that the pooler reads.

        The first token, `[CLS]`; a left-to-right model reads the last one instead, since its first
        token has seen nothing but itself (the paper is silent on this).
        """
        left_to_right = self.config.direction == "left_to_right"
        return stream.last_rows if left_to_right else stream.first_rows

    def pool_rows(self, rows: Tensor) -> Tensor:
        """(N, H) -> (N, H): dense and tanh. Raises ValueError for a model without a pooler."""
        if self.pooler is None:
            raise ValueError("this model has no pooler; load one that has, or train it")
        return torch.tanh(self.pooler(rows))

    @property
    def token_embedding(self) -> Tensor:
        """(V, H): what a tied language-model head compares with; a two-way model has none."""
        assert isinstance(self.embeddings, Embeddings)
        return self.embeddings.token.weight

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Of its matrices; norms may be wider."""
        return next(self.parameters()).dtype


def _embeddings(config: BertConfig) -> Embeddings | TwoWayEmbeddings:
    if config.direction == "two_way":
        return TwoWayEmbeddings(*map(Embeddings, config.sides))
    return Embeddings(config)


def _layer(config: BertConfig, number: int) -> nn.Module:
    if config.direction == "two_way":
        return TwoWayLayer(*(_layer(side, number) for side in config.sides))
    return LstmLayer(config, number) if config.layer_kind == "lstm" else Layer(config, number)


def _picked(hidden: Tensor, rows: Tensor | None) -> Tensor:
    """(T, H) -> (R, H); all of them where no rows are named."""
    return hidden if rows is None else hidden.index_select(0, rows)


def _first(hidden: Tensor, count: int) -> Tensor:
    """Without what stands in spare rows."""
    return hidden if hidden.shape[0] == count else hidden[:count]
