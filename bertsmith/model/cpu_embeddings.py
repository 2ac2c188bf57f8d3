"""Ids -> the first hidden states on a CPU, in one call: of a model that answers, or that learns.

The functions of `cpu_embeddings.cpp` do what `embeddings.Embeddings` defines, dropout masks to the
bit, and one that learns has its gradients in one call too. The definition takes what these do not:
other devices and types, tables or norms that do not learn beside others that do, dropout without
gradients, parts that somebody watches or changed, and a machine without a compiler.

Differs: in bfloat16 the sum of the three rows is not rounded before the norm, nor its gradient
before it is added up by ids, which is done in blocks of rows. Tables may not be changed between the
way there and the way back. Reentrant checkpointing, which goes there first without a gradient,
computes that pass by operators, and so with other roundings.

Legend: T tokens, H hidden size, R rows of a table, U distinct rows in the step.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith.model.cpu_norm import NativeNorm
from bertsmith.model.dropout import EMBEDDING_SITE, NativeDropout, site_number
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream
from bertsmith.native import call, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
_NUM_TABLES = 3


@dataclass(frozen=True, kw_only=True)
class EmbeddingRules:
    """What is done beside what the weights say, and how gradients are left."""

    epsilon: float
    """Of the norm."""
    probability: float
    """Of dropout, where rows have keys for it."""
    are_sparse: tuple[bool, ...]
    """Of each table, whether its gradient holds only the rows that were looked up."""


class _Table(ctypes.Structure):
    """`Table` of the source."""

    _fields_ = (*pointers("rows", "ids"), *int64s("num_rows"))


class TokenTables(ctypes.Structure):
    """`TokenTables` of the sources."""

    _fields_ = (
        ("tables", _Table * _NUM_TABLES),
        ("norm", NativeNorm),
        *int64s("width", "count"),
    )

    @staticmethod
    def of(
        tables: Sequence[Tensor], ids: Sequence[Tensor], norm: Sequence[Tensor], epsilon: float
    ) -> TokenTables:
        """Of the norm weight and bias."""
        described = (
            _Table(each.data_ptr(), those.data_ptr(), each.shape[0])
            for each, those in zip(tables, ids, strict=True)
        )
        weight, bias = norm
        return TokenTables(
            (_Table * _NUM_TABLES)(*described),
            NativeNorm(weight.data_ptr(), bias.data_ptr(), epsilon),
            tables[0].shape[1],
            ids[0].shape[0],
        )


class _Embeddings(ctypes.Structure):
    """`Embeddings` of the source; without dropout, if that is not said."""

    _fields_ = (
        ("of", TokenTables),
        ("keys", ctypes.c_void_p),
        ("site", ctypes.c_uint32),
        ("dropout", NativeDropout),
    )

    def drop(self, keys: Tensor | None, probability: float) -> None:
        """Has it dropped, by (T,) row keys."""
        if keys is None or probability == 0.0:
            return
        self.keys, self.site = keys.data_ptr(), site_number(0, EMBEDDING_SITE)
        self.dropout = NativeDropout.of(probability)


class _IdSums(ctypes.Structure):
    """`IdSums` of the source."""

    _fields_ = (*pointers("sums", "ids"), *int64s("count"))


class _Gradients(ctypes.Structure):
    """`Gradients` of the source."""

    _fields_ = (
        *pointers("states", "statistics"),
        ("tables", _IdSums * _NUM_TABLES),
        ("norm", ctypes.c_void_p),
    )


def embed(stream: Stream, tables: Sequence[Tensor], norm: nn.LayerNorm) -> Tensor | None:
    """(T, H) states by the (R, H) tables of tokens, segments and positions, for answers.

    None where it is not for this function, or an id has no row.
    """
    ids = ids_of(stream)
    if stream.row_keys is not None or not suits(ids, tables, norm):
        return None
    of_norm = (norm.weight, norm.bias)  # which others may make, and nobody else holds
    of = TokenTables.of(tables, ids, of_norm, norm.eps)
    return _embedded(_Embeddings(of), tables[0], None)


def embed_and_learn(
    stream: Stream, tables: Sequence[Tensor], norm: nn.LayerNorm, rules: EmbeddingRules
) -> Tensor | None:
    """The same with dropout, and with gradients for all tables and the norm.

    None where it is not for this function, or an id has no row.
    """
    ids = ids_of(stream)
    keys, (weight, bias) = stream.row_keys, (norm.weight, norm.bias)
    if not suits(ids, tables, norm, keys):
        return None
    if not all(each.requires_grad for each in (*tables, weight, bias)):
        return None
    given = (*tables, weight, bias, *ids, keys)
    states: Tensor | None = _Embedding.apply(rules, *given)  # type: ignore[no-untyped-call]
    return states


class _Embedding(torch.autograd.Function):
    """Of the tables, the norm's weight and bias, the tables' ids and (T,) row keys of dropout."""

    @staticmethod
    def forward(ctx: Any, rules: EmbeddingRules, *given: Tensor) -> Tensor | None:
        like, ids = given[0], given[_NUM_TABLES + 2]
        statistics = like.new_empty((len(ids), 2), dtype=torch.float32)
        states = _embedded(_described(given, rules), like, statistics)
        ctx.save_for_backward(*given, statistics)
        ctx.rules = rules
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        *given, statistics = ctx.saved_tensors
        tables, weight = given[:_NUM_TABLES], given[_NUM_TABLES]
        gradient = gradients[0].contiguous()  # (T, H)
        of_norm = weight.new_empty((2, len(weight)))
        rooms = [
            _room(table, len(statistics), is_sparse)
            for table, is_sparse in zip(tables, ctx.rules.are_sparse, strict=True)
        ]
        described = (_IdSums(*(pointer(each) for each in room)) for room in rooms)
        to = _Gradients(
            pointer(gradient),
            pointer(statistics),
            (_IdSums * _NUM_TABLES)(*described),
            pointer(of_norm),
        )
        of = _described(given, ctx.rules)
        status = call(SOURCE, "embed_backward", gradient, ctypes.byref(of), ctypes.byref(to))
        assert status == 0.0, "ids were changed between the way there and the way back"
        of_tables = [
            _gradient(table, *room, each.count)
            for table, room, each in zip(tables, rooms, to.tables, strict=True)
        ]
        return None, *of_tables, *of_norm.unbind(), *[None] * (_NUM_TABLES + 1)


def _described(given: Sequence[Any], rules: EmbeddingRules) -> _Embeddings:
    """What `_Embedding` is given, as the source reads it."""
    *tensors, keys = given
    tables, norm, ids = (
        tensors[:_NUM_TABLES],
        tensors[_NUM_TABLES:-_NUM_TABLES],
        tensors[-_NUM_TABLES:],
    )
    of = _Embeddings(TokenTables.of(tables, ids, norm, rules.epsilon))
    of.drop(keys, rules.probability)
    return of


def _embedded(of: _Embeddings, like: Tensor, statistics: Tensor | None) -> Tensor | None:
    """(T, H), and what is kept of each row for the way back; None where an id has no row."""
    states = like.new_empty(of.of.count, of.of.width)
    is_done = call(SOURCE, "embed", states, ctypes.byref(of), pointer(states), pointer(statistics))
    return states if is_done == 0.0 else None


def _room(table: Tensor, count: int, is_sparse: bool) -> tuple[Tensor, Tensor | None]:
    """Where a table's gradient is written, and where the rows that it holds if not all."""
    if not is_sparse:
        return torch.zeros_like(table), None  # (R, H)
    most = min(count, len(table))
    sums = table.new_empty((most, table.shape[1]))
    return sums, table.new_empty((1, most), dtype=torch.int64)


def _gradient(table: Tensor, sums: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """(R, H), dense or of so many rows, as autograd takes it."""
    if rows is None:
        return sums
    return torch.sparse_coo_tensor(
        rows.resize_(1, count),
        sums.resize_(count, table.shape[1]),  # (U, H)
        table.shape,
        is_coalesced=True,
        check_invariants=False,
    )


def ids_of(stream: Stream) -> tuple[Tensor, Tensor, Tensor]:
    """Of tokens, segments and positions, as tables are told: (T,) each."""
    return stream.token_ids, stream.segment_ids, stream.positions


def suits(
    ids: Sequence[Tensor], tables: Sequence[Tensor], norm: nn.LayerNorm, keys: Tensor | None = None
) -> bool:
    """Whether the functions can read the ids, the tables, their norm and keys of dropout."""
    weight, bias = norm.weight, norm.bias
    dtype, width, count = tables[0].dtype, tables[0].shape[1:], ids[0].shape
    for table in tables:
        if table.dtype != dtype or table.shape[1:] != width or not table.is_contiguous():
            return False
    if any(part is None for part in (weight, bias)):
        return False
    for part in (weight, bias):
        if part.dtype != torch.float32 or part.shape != width or not part.is_contiguous():
            return False
    for each in ids:
        if each.dtype != torch.int64 or each.shape != count or not each.is_contiguous():
            return False
    of_dropout = [] if keys is None else [keys]
    for each in of_dropout:
        if each.dtype != torch.int32 or each.shape != count or not each.is_contiguous():
            return False
    return takes(SOURCE, *tables, weight, bias, *ids, *of_dropout)
