"""One layer of ELMo: an LSTM that reads every sequence in one direction, projected to H.

No padding: sequences are read side by side, a place at a time, each to its own end. The products
with a layer's input are made for all tokens at once, so only those with the state before are made
place by place. The backward pass is written out, because automatic differentiation would add up a
gradient of the matrices at every place. It does not know what the hidden states are for.

Differs: neither cells nor projections are clipped.

Source: Peters et al. 2018, sections 3.1 and 3.4; Sak et al. 2014 (the projection);
allenai/bilm-tf, training.py, LanguageModel._build (residual and dropout).

Legend: T rows, R rows asked for (all T if none are named), N sequences, S tokens of the longest,
n sequences that have a place, H hidden size, F cells.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.fusion import fused
from bertsmith.model.config import BertConfig, Direction
from bertsmith.model.dropout import LSTM_SITE, site_words
from bertsmith.model.elementwise import drop, widened
from bertsmith.model.first_order import first_order
from bertsmith.model.linear import Linear
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
        places = torch.empty_like(order)
        places[order] = torch.arange(len(order), device=order.device)
        if rows is not None:
            places, hidden = places.index_select(0, rows), hidden.index_select(0, rows)  # (R, H)
        states = read.index_select(0, places)  # (R, H)
        if self.number > 0:
            states = states + widened(hidden)
        words = site_words(stream.keys_of(rows), self.number, LSTM_SITE)
        return drop(states.to(hidden.dtype), words, self.dropout)


def reading_order(stream: Stream, direction: Direction) -> tuple[Tensor, list[int]]:
    """(T,) stream rows in the order in which they are read, and how many at each of S places.

    First the first token to be read of every sequence, then every second one, and so on. The
    longest sequence comes first at every place, so that those that go on are always the first ones;
    spare rows come last, at no place.
    """
    lengths = stream.last_rows - stream.first_rows + 1  # (N,)
    by_length = lengths.argsort(descending=True, stable=True)  # (N,)
    places = torch.arange(int(lengths.max()), device=lengths.device)[:, None]  # (S, 1)
    if direction == "left_to_right":
        rows = stream.first_rows[by_length] + places  # (S, N)
    else:
        rows = stream.last_rows[by_length] - places  # (S, N)
    is_real = places < lengths[by_length]  # (S, N)
    spare = torch.arange(stream.num_tokens, len(stream.token_ids), device=rows.device)
    return torch.cat([rows[is_real], spare]), is_real.sum(dim=1).tolist()


def recur(sums: Tensor, recurrent: Tensor, projection: Tensor, counts: list[int]) -> Tensor:
    """(T, 4F) what the input adds to the gates, in reading order -> (T, H) states, the same order.

    `recurrent` (4F, H), `projection` (H, F); the input gate, the forget gate, the candidate and the
    output gate stand side by side. In float32 at least: a state is the sum of all before it. Rows
    at no place are 0.
    """
    is_learning = torch.is_grad_enabled()  # inside a Function it is always off
    states: Tensor = _Recurrence.apply(sums, recurrent, projection, counts, is_learning)  # type: ignore[no-untyped-call]
    return states


class _Recurrence(torch.autograd.Function):
    """`recur`, with its backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        sums: Tensor,
        recurrent: Tensor,
        projection: Tensor,
        counts: list[int],
        is_learning: bool,
    ) -> Tensor:
        across, down = widened(recurrent), widened(projection)  # (4F, H), (H, F)
        states = across.new_zeros(len(sums), len(down))  # (T, H)
        state = across.new_zeros(counts[0], len(down))  # (n, H)
        cell = across.new_zeros(counts[0], down.shape[1])  # (n, F)
        kept: list[Tensor] = []
        for start, count in zip(_starts(counts), counts, strict=True):
            added = widened(sums[start : start + count])  # (n, 4F)
            total = torch.addmm(added, state[:count], across.t())
            gates, cell, shown = _step(total, cell[:count])  # (n, 4F), (n, F), (n, F)
            state = states[start : start + count]
            torch.mm(shown, down.t(), out=state)
            kept += [gates, cell] if is_learning else []
        ctx.save_for_backward(recurrent, projection, states, *kept)
        ctx.counts, ctx.dtype = counts, sums.dtype
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        recurrent, projection, states, *kept = ctx.saved_tensors
        counts: list[int] = ctx.counts
        starts = _starts(counts)
        across, down = widened(recurrent), widened(projection)  # (4F, H), (H, F)
        grad_states = gradients[0].clone()  # (T, H)
        grad_sums = across.new_zeros(len(states), len(across))  # (T, 4F)
        grad_cell = across.new_zeros(counts[0], down.shape[1])  # (n, F)
        begin, shown = torch.zeros_like(grad_cell), []
        for number in reversed(range(len(counts))):
            rows, count = slice(starts[number], starts[number] + counts[number]), counts[number]
            before = kept[2 * number - 1] if number else begin
            grad_sums[rows], grad_cell[:count], of_place = _step_backward(
                kept[2 * number],
                kept[2 * number + 1],
                before[:count],
                grad_states[rows] @ down,  # (n, F)
                grad_cell[:count],
            )
            shown.append(of_place)  # (n, F)
            if number:  # to the same sequences, a place earlier
                earlier = grad_states[starts[number - 1] :][:count]  # (n, H)
                earlier.addmm_(grad_sums[rows], across)
        later, previous = slice(counts[0], sum(counts)), _previous(states, counts)
        grad_across = grad_sums[later].t() @ previous  # (4F, H)
        grad_down = grad_states[: sum(counts)].t() @ torch.cat(shown[::-1])  # (H, F)
        return (
            grad_sums.to(ctx.dtype),
            grad_across.to(recurrent.dtype),
            grad_down.to(projection.dtype),
            None,
            None,
        )


def _previous(states: Tensor, counts: list[int]) -> Tensor:
    """(T - N, H): of every row behind the first place, the state a place earlier."""
    places = zip(_starts(counts), counts[1:], strict=False)
    return torch.cat([states[:0], *(states[start : start + count] for start, count in places)])


def _starts(counts: list[int]) -> list[int]:
    """The row with which each place begins."""
    return [0, *accumulate(counts[:-1])]


@fused
def _step(total: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(n, 4F) sums and (n, F) cells before -> gates, cells, and what the cells show."""
    first, second, third, fourth = total.chunk(4, dim=1)  # (n, F)
    input_gate, forget_gate, output_gate = first.sigmoid(), second.sigmoid(), fourth.sigmoid()
    candidate = third.tanh()
    cell = forget_gate * before + input_gate * candidate
    gates = torch.cat([input_gate, forget_gate, candidate, output_gate], dim=1)  # (n, 4F)
    return gates, cell, output_gate * cell.tanh()


@fused
def _step_backward(
    gates: Tensor, cell: Tensor, before: Tensor, grad_shown: Tensor, grad_cell: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of (n, 4F) sums and of (n, F) cells before; and what the cells showed, again."""
    input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)  # (n, F)
    bounded = cell.tanh()
    grad_cell = grad_cell + grad_shown * output_gate * (1.0 - bounded * bounded)
    grad_sums = torch.cat(
        [
            grad_cell * candidate * input_gate * (1.0 - input_gate),
            grad_cell * before * forget_gate * (1.0 - forget_gate),
            grad_cell * input_gate * (1.0 - candidate * candidate),
            grad_shown * bounded * output_gate * (1.0 - output_gate),
        ],
        dim=1,
    )  # (n, 4F)
    return grad_sums, grad_cell * forget_gate, output_gate * bounded
