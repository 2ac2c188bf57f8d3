"""One layer of ELMo: an LSTM that reads every sequence in one direction, projected to H.

It does not know what the hidden states are for; how a sequence is read stands in `recurrence`.

Differs: neither cells nor projections are clipped.

Source: Peters et al. 2018, sections 3.1 and 3.4; Sak et al. 2014 (the projection);
allenai/bilm-tf, training.py, LanguageModel._build (residual and dropout).

Legend: T rows, R rows asked for (all T if none are named), H hidden size, F cells.
"""

from __future__ import annotations

from torch import Tensor, nn

from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import LSTM_SITE, site_words
from bertsmith.model.elementwise import drop, widened
from bertsmith.model.linear import Linear
from bertsmith.model.recurrence import places_of, reading_order, recur
from bertsmith.model.stream import Stream


class LstmLayer(nn.Module):
    """(T, H) hidden states -> (T, H) hidden states."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        hidden, cells = config.hidden_size, config.intermediate_size
        self.number = number
        self.direction = config.direction
        self.dropout = config.hidden_dropout_prob
        self.gates = Linear(hidden, 4 * cells)
        self.recurrent = nn.Linear(hidden, 4 * cells, bias=False)
        self.projection = nn.Linear(cells, hidden, bias=False)

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Reads, adds the residual, drops; with `rows` (R,), what follows reading is made for them.

        The first layer has no residual.
        """
        order, counts = reading_order(stream, self.direction)
        sums = self.gates(hidden.index_select(0, order))  # (T, 4F)
        read = recur(sums, self.recurrent.weight, self.projection.weight, counts)  # (T, H)
        places = places_of(order)
        if rows is not None:
            places, hidden = places.index_select(0, rows), hidden.index_select(0, rows)  # (R, H)
        states = read.index_select(0, places)  # (R, H)
        if self.number > 0:
            states = states + widened(hidden)
        words = site_words(stream.keys_of(rows), self.number, LSTM_SITE)
        return drop(states.to(hidden.dtype), words, self.dropout)
