"""Ids -> the first hidden states of a model that only answers, on a CPU, in one call.

The function of `cpu_embeddings.cpp` does what `embeddings.Embeddings` defines, which takes what
this does not: gradients, dropout, other devices and types, and a machine without a compiler.

Differs: in bfloat16 the sum of the three rows is not rounded before the norm.

Legend: T tokens, H hidden size.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from bertsmith.model.stream import Stream
from bertsmith.native import call, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")


class _Table(ctypes.Structure):
    """`Table` of the source."""

    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("ids", ctypes.c_void_p),
        ("num_rows", ctypes.c_int64),
    )


class _Embeddings(ctypes.Structure):
    """`Embeddings` of the source."""

    _fields_ = (
        ("tables", _Table * 3),
        ("weight", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("epsilon", ctypes.c_float),
        ("width", ctypes.c_int64),
        ("count", ctypes.c_int64),
    )


def embed(stream: Stream, tables: Sequence[Tensor], norm: nn.LayerNorm) -> Tensor | None:
    """(T, H) states by the (R, H) tables of tokens, segments and positions.

    None where it is not for this function, or an id has no row.
    """
    ids = (stream.token_ids, stream.segment_ids, stream.positions)
    if not _suits(stream, ids, tables, norm):
        return None
    width, count = tables[0].shape[1], len(ids[0])
    states = tables[0].new_empty(count, width)
    described = (
        _Table(pointer(each), pointer(those), len(each))
        for each, those in zip(tables, ids, strict=True)
    )
    of = _Embeddings(
        tables=(_Table * 3)(*described),
        weight=pointer(norm.weight),
        bias=pointer(norm.bias),
        epsilon=norm.eps,
        width=width,
        count=count,
    )
    is_done = call(SOURCE, "embed", states, ctypes.byref(of), pointer(states)) == 0.0
    return states if is_done else None


def _suits(
    stream: Stream, ids: Sequence[Tensor], tables: Sequence[Tensor], norm: nn.LayerNorm
) -> bool:
    weight, bias = norm.weight, norm.bias
    if torch.is_grad_enabled() or stream.row_keys is not None or bias is None:
        return False
    dtype, width, count = tables[0].dtype, tables[0].shape[1:], ids[0].shape
    for table in tables:
        if table.dtype != dtype or table.shape[1:] != width or not table.is_contiguous():
            return False
    for part in (weight, bias):
        if part.dtype != torch.float32 or part.shape != width or not part.is_contiguous():
            return False
    for each in ids:
        if each.dtype != torch.int64 or each.shape != count or not each.is_contiguous():
            return False
    return takes(SOURCE, *tables, weight, bias, *ids)
