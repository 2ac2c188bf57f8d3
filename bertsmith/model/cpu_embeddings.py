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
    return (
        not torch.is_grad_enabled()
        and stream.row_keys is None
        and norm.bias is not None
        and norm.weight.dtype == norm.bias.dtype == torch.float32
        and len({(each.dtype, each.shape[1]) for each in tables}) == 1
        and norm.weight.shape == norm.bias.shape == tables[0].shape[1:]
        and len({len(each) for each in ids}) == 1
        and all(each.dtype == torch.int64 and each.is_contiguous() for each in ids)
        and all(each.is_contiguous() for each in (*tables, norm.weight, norm.bias))
        and takes(SOURCE, *tables, norm.weight, norm.bias, *ids)
    )
