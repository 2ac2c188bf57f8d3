"""The recurrence of an LSTM over a packed stream: what the input adds to gates -> states.

No padding: sequences are read side by side, a place at a time, each to its own end. The products
with a layer's input are made for all tokens at once, elsewhere, so only those with the state before
are made place by place. The backward pass is written out, because automatic differentiation would
add up a gradient of the matrices at every place. What is done place by place is one call of
`cpu_recurrence` where that is there, and torch's operators else, which are the definition.

Differs: everything is float32 at least, in bfloat16 and float16 too.

Source: Hochreiter and Schmidhuber 1997; Gers et al. 2000 (the forget gate); Sak et al. 2014 (the
projection).

Legend: T rows, P rows that have a place, N sequences, S tokens of the longest, n sequences that
have a place, F cells, H width of a state: F, or what cells are projected to.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from bertsmith.fusion import fused
from bertsmith.model import cpu_recurrence
from bertsmith.model.config import Direction
from bertsmith.model.elementwise import widened
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream


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


def places_of(order: Tensor) -> Tensor:
    """(T,) rows in an order -> (T,) where in that order each row stands."""
    places = torch.empty_like(order)
    places[order] = torch.arange(len(order), device=order.device)
    return places


def recur(sums: Tensor, recurrent: Tensor, projection: Tensor | None, counts: list[int]) -> Tensor:
    """(T, 4F) what the input adds to the gates, in reading order -> (T, H) states, the same order.

    `recurrent` (4F, H), `projection` (H, F), None where a state is what the cells show; the input
    gate, the forget gate, the candidate and the output gate stand side by side. In float32 at
    least: a state is the sum of all before it. Rows at no place are 0.
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
        projection: Tensor | None,
        counts: list[int],
        is_learning: bool,
    ) -> Tensor:
        """(T, 4F) sums, (4F, H) and (H, F) matrices -> (T, H) states."""
        across = widened(recurrent)  # (4F, H)
        down = None if projection is None else widened(projection)  # (H, F)
        read = cpu_recurrence.read if cpu_recurrence.suits(sums, across, down) else _read
        states, *kept = read(sums, across, down, counts, is_learning)
        ctx.save_for_backward(recurrent, projection, states, *kept)
        ctx.counts, ctx.dtype = counts, sums.dtype
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """(T, H) gradients of states -> those of the sums and of both matrices."""
        recurrent, projection, states, gates, cells = ctx.saved_tensors
        counts: list[int] = ctx.counts
        across = widened(recurrent)  # (4F, H)
        down = None if projection is None else widened(projection)  # (H, F)
        grad_states = gradients[0].clone(memory_format=torch.contiguous_format)  # (T, H)
        suits = cpu_recurrence.suits(grad_states, across, down)
        back = cpu_recurrence.read_back if suits else _read_back
        grad_sums, shown = back(grad_states, gates, cells, across, down, counts)
        grad_across = grad_down = None
        if ctx.needs_input_grad[1]:
            later = grad_sums[counts[0] : sum(counts)]  # (P - N, 4F)
            grad_across = (later.t() @ _previous(states, counts)).to(recurrent.dtype)  # (4F, H)
        if projection is not None and ctx.needs_input_grad[2]:
            grad_down = (grad_states[: sum(counts)].t() @ shown).to(projection.dtype)  # (H, F)
        return grad_sums.to(ctx.dtype), grad_across, grad_down, None, None


def _read(
    sums: Tensor, across: Tensor, down: Tensor | None, counts: list[int], is_learning: bool
) -> tuple[Tensor, ...]:
    """(T, H) states; and where something is to be learned, (P, 4F) gates and (P, F) cells."""
    states = across.new_zeros(len(sums), across.shape[1])  # (T, H)
    state = across.new_zeros(counts[0], across.shape[1])  # (n, H)
    cell = across.new_zeros(counts[0], len(across) // 4)  # (n, F)
    kept: tuple[list[Tensor], list[Tensor]] = [], []
    for start, count in zip(starts_of(counts), counts, strict=True):
        rows = slice(start, start + count)
        total = torch.addmm(widened(sums[rows]), state[:count], across.t())  # (n, 4F)
        gates, cell, shown = _step(total, cell[:count])  # (n, 4F), (n, F), (n, F)
        state = states[rows]
        if down is None:
            state.copy_(shown)
        else:
            torch.mm(shown, down.t(), out=state)
        if is_learning:
            kept[0].append(gates)
            kept[1].append(cell)
    return (states, *map(torch.cat, kept)) if is_learning else (states,)


def _read_back(
    grad_states: Tensor,
    gates: Tensor,
    cells: Tensor,
    across: Tensor,
    down: Tensor | None,
    counts: list[int],
) -> tuple[Tensor, Tensor]:
    """(T, H) gradients of states -> (T, 4F) gradients of sums, and (P, F) what the cells showed.

    What later places add to the gradients of states is added to them.
    """
    starts = starts_of(counts)
    grad_sums = across.new_zeros(len(grad_states), len(across))  # (T, 4F)
    grad_cell = across.new_zeros(counts[0], cells.shape[1])  # (n, F)
    begin, shown = torch.zeros_like(grad_cell), []
    for number in reversed(range(len(counts))):
        count = counts[number]
        rows = slice(starts[number], starts[number] + count)
        before = cells[starts[number - 1] :] if number else begin
        grad_shown = grad_states[rows] if down is None else grad_states[rows] @ down  # (n, F)
        grad_sums[rows], grad_cell[:count], of_place = _step_backward(
            gates[rows], cells[rows], before[:count], grad_shown, grad_cell[:count]
        )
        shown.append(of_place)  # (n, F)
        if number:  # to the same sequences, a place earlier
            earlier = grad_states[starts[number - 1] :][:count]  # (n, H)
            earlier.addmm_(grad_sums[rows], across)
    return grad_sums, torch.cat(shown[::-1])


def _previous(states: Tensor, counts: list[int]) -> Tensor:
    """(P - N, H): of every row behind the first place, the state a place earlier."""
    places = zip(starts_of(counts), counts[1:], strict=False)
    return torch.cat([states[:0], *(states[start : start + count] for start, count in places)])


def starts_of(counts: list[int]) -> list[int]:
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
