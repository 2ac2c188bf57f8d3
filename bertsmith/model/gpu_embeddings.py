"""Embeddings on a GPU: one kernel there, and one back to the gradient of the looked-up rows.

Its sums by id are made in float32, of rows that nobody rounded. Values, gradients and dropout masks
are those of `embeddings.Embeddings` made of operators, which is the definition.

Differs: the three rows are added up before they are rounded; an id that its table does not have
gives no number (NaN), where operators end the process.

Legend: T tokens, H hidden size, R rows of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith import gpu_kernels
from bertsmith.model import gpu_norm, gpu_sums
from bertsmith.model.first_order import first_order
from bertsmith.model.gpu_norm import Lookup
from bertsmith.model.stream import Stream

_FEW_IDS = 64
"""Of segments; so few sums of so many rows are a matrix product."""


def suits(tables: Sequence[Tensor], norm: nn.LayerNorm) -> bool:
    """Whether the kernels are there for these weights, and all of them learn or nobody asks."""
    weights = (*tables, norm.weight, norm.bias)
    first = tables[0]
    return (
        first.is_cuda
        and first.dtype in (torch.bfloat16, torch.float16, torch.float32)
        and first.shape[1] <= gpu_norm.WIDEST
        and all(each.device == first.device and each.is_contiguous() for each in weights)
        and all(each.dtype == first.dtype for each in tables)
        and all(each.dtype in (torch.float32, first.dtype) for each in (norm.weight, norm.bias))
        and (not torch.is_grad_enabled() or all(each.requires_grad for each in weights))
        and gpu_kernels.run_on(first.device)
    )


def embed(
    stream: Stream, tables: Sequence[Tensor], norm: nn.LayerNorm, probability: float
) -> Tensor:
    """Of token, segment and position tables: (T, H) first hidden states."""
    rates = (probability, norm.eps)
    states: Tensor = _GpuEmbeddings.apply(  # type: ignore[no-untyped-call]
        stream, rates, *tables, norm.weight, norm.bias
    )
    return states


def summed_by_id(rows: Tensor, ids: Tensor, num_ids: int) -> Tensor:
    """(T, H) rows with (T,) ids -> (R, H): the sum of each id's rows, as a GPU makes it.

    In float32 (TF32 where the user allows it and the rows are float32) and always in the same
    order, which atomic additions would not be; and without asking how many ids are distinct, for
    which the GPU would be waited for.
    """
    # Wide rows: of up to 3,072 torch keeps its running sums in the rows' own type.
    wide = rows.to(torch.promote_types(rows.dtype, torch.float32))
    if num_ids <= _FEW_IDS:
        is_its = torch.arange(num_ids, device=ids.device)[:, None] == ids  # (R, T)
        return (is_its.to(wide.dtype) @ wide).to(rows.dtype)
    sums = torch.ops.aten.embedding_dense_backward(wide, ids, num_ids, -1, False)
    return sums.to(rows.dtype)  # type: ignore[no-any-return]


class _GpuEmbeddings(torch.autograd.Function):
    """Of a stream, dropout's rate and epsilon."""

    @staticmethod
    def forward(ctx: Any, stream: Stream, rates: tuple[float, float], *weights: Tensor) -> Tensor:
        ids = (stream.token_ids, stream.segment_ids, stream.positions)
        given = (ids, weights[:3], stream.row_keys, weights[3:])
        states, lookup = gpu_norm.embed_and_norm(*given, *rates)
        ctx.save_for_backward(*lookup, weights[3])
        ctx.stream, ctx.probability = stream, rates[0]
        ctx.tables = [(len(table), table.dtype) for table in weights[:3]]
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *lookup, weight = ctx.saved_tensors  # once: what is computed anew gives them once
        rows, of_norm = gpu_norm.embed_and_norm_backward(
            gradients[0].contiguous(), Lookup(*lookup), weight, ctx.probability
        )  # (T, H) float32
        return None, None, *_summed_up(rows, ctx.stream, ctx.tables), *of_norm


def _summed_up(
    rows: Tensor, stream: Stream, tables: Sequence[tuple[int, torch.dtype]]
) -> list[Tensor]:
    """(T, H) -> the gradients of token, segment and position tables of such lengths and types."""
    (num_words, dtype), (num_segments, _), (num_places, _) = tables
    ids = stream.token_ids.clamp(0, num_words - 1)
    of_words = summed_by_id(rows, ids, num_words).to(dtype)
    if num_segments > gpu_sums.MOST_SEGMENTS or stream.longest > num_places:
        others = (stream.segment_ids, num_segments), (stream.positions, num_places)
        of_others = [summed_by_id(rows, each.clamp(0, last - 1), last) for each, last in others]
        return [of_words, *(each.to(dtype) for each in of_others)]
    of_places, of_segments = gpu_sums.by_place(rows, stream, num_segments, dtype)
    unused = of_places.new_zeros((num_places - len(of_places), rows.shape[1]))
    return [of_words, of_segments, torch.cat([of_places, unused])]
