"""What ids bring to the first layer's queries, keys and values, laid out for a CPU that answers.

The first hidden states are a norm of three rows of tables, and queries, keys and values a map of
these. All of it is linear but for the norm's factor, one number a token. So the map of all rows is
made once (`cpu_token_projections.h`), and a layer adds up three of them for a token where it would
multiply, in the pass that makes the token's hidden state. `layer.Layer` of what
`embeddings.Embeddings` gives is the definition. It takes three times the memory of the table of
tokens and some more, so it is done up to `MOST_BYTES` alone. Beyond, and beside products in
float32, hidden states are made in the same call and the layer multiplies them.

Differs: the three rows, centred and weighted, are rounded before the map and not their norm, and
what a token brings is rounded once more.

Source: compare Graef 2024, Transformer tricks: Precomputing the first layer.

Legend: T tokens, R rows of a table, H hidden size, W columns of the map up to whole panels.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TypeGuard

import torch
from torch import Tensor, nn

from bertsmith.model.cpu_embeddings import TokenTables, ids_of, suits
from bertsmith.model.cpu_layer import FLOAT32_SOURCE, ReadyLayer
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.origins import Origins
from bertsmith.model.stream import Stream
from bertsmith.model.watched import is_watched
from bertsmith.native import call, pointer
from bertsmith.structures import int64s, pointers

MOST_BYTES = 192 << 20
"""What tokens may bring: of BERT's vocabulary LARGE's takes 179 MiB in bfloat16, BASE's 134."""


class Projected(ctypes.Structure):
    """`Projected` of the source."""

    _fields_ = (
        ("of", TokenTables),
        *pointers("of_tokens", "of_segments", "of_positions", "of_bias"),
        *int64s("wide"),
        *pointers("hidden"),
    )


class TokenProjections:
    """Those of a model's tables by its first layer's map, for all of its streams.

    Where they do not pay it holds the tables alone, of which hidden states are made in one call.
    """

    def __init__(self, embeddings: Embeddings, layer: ReadyLayer) -> None:
        """Of the tables, and the layer that hidden states of theirs go to."""
        norm, tables = embeddings.norm, _tables(embeddings)
        weight, bias = norm.weight.detach(), norm.bias.detach()  # (H,)
        brought = _brought(tables, weight, bias, layer) if _pay(embeddings, layer) else ()
        self.are_made = bool(brought)
        """Whether the layer looks them up; else it multiplies hidden states."""
        self._layer, self._embeddings = layer, embeddings
        self._origins = _origins(embeddings)
        self._held = (*brought, *tables, weight, bias)
        no_ids = [table.new_empty(0) for table in tables]
        of = TokenTables.of(tables, no_ids, (weight, bias), norm.eps)
        self._structure = Projected(of, *(each.data_ptr() for each in brought))
        self._structure.wide = layer.wide

    @staticmethod
    def made(embeddings: Embeddings, layer: ReadyLayer) -> TokenProjections | None:
        """None where the functions cannot read the tables, or others make these anew every time."""
        tables = _tables(embeddings)
        no_ids = [torch.empty(0, dtype=torch.int64)] * len(tables)
        can_be_read = tables[0].dtype == layer.dtype and suits(no_ids, tables, embeddings.norm)
        if not can_be_read or not _origins(embeddings).are_here():
            return None
        return TokenProjections(embeddings, layer)

    def are_of(self, embeddings: Embeddings, layer: ReadyLayer) -> bool:
        """Whether they are that layer's, and the embeddings have the parts and weights they had."""
        return self._layer is layer and self._embeddings is embeddings and self._origins.are_here()

    def suit(self, stream: Stream) -> bool:
        """Whether its ids are such that the functions can read them."""
        tokens, segments, positions = ids = ids_of(stream)
        return tokens.shape == segments.shape == positions.shape and all(
            each.dtype == torch.int64 and each.is_contiguous() for each in ids
        )

    def of(self, stream: Stream, hidden: Tensor) -> Projected:
        """A stream's, whose hidden states are to be put there, (T, H)."""
        found = Projected.from_buffer_copy(self._structure)
        for table, ids in zip(found.of.tables, ids_of(stream), strict=True):
            table.ids = ids.data_ptr()
        found.of.count, found.hidden = hidden.shape[0], hidden.data_ptr()
        return found


def is_answering(module: nn.Module) -> TypeGuard[Embeddings]:
    """Whether it is embeddings that answer in one call, and nobody changes what they give."""
    return type(module) is Embeddings and module.only_answers and not is_watched(module)


def _pay(embeddings: Embeddings, layer: ReadyLayer) -> bool:
    """Whether what tokens bring is not too much, and near enough to the layer's products.

    Those of float32 are more exact than a sum of three.
    """
    if layer.source == FLOAT32_SOURCE:
        return False
    num_tokens = len(embeddings.token.weight)
    return num_tokens * layer.wide * layer.dtype.itemsize <= MOST_BYTES


def _brought(
    tables: Sequence[Tensor], weight: Tensor, bias: Tensor, layer: ReadyLayer
) -> tuple[Tensor, ...]:
    """By (R, H) tables, (H,) weights and biases of their norm: (R, W) of each, (W,) of the bias."""
    qkv, of_map = layer.qkv.weight.detach(), layer.qkv.bias.detach()
    of_bias = nn.functional.linear(bias, qkv.float(), of_map.float())  # (3 H,)
    return (
        _projected("project_tokens", tables[0], layer, weight),
        *(_projected("project", table, layer, weight) for table in tables[1:]),
        layer.in_columns(of_bias),
    )


def _projected(name: str, table: Tensor, layer: ReadyLayer, weight: Tensor) -> Tensor:
    """(R, H) rows of a table, (H,) weights of the norm -> (R, W), of tokens in the table's type."""
    dtype = table.dtype if name == "project_tokens" else torch.float32
    found = torch.empty(len(table), layer.wide, dtype=dtype)
    call(
        layer.source,
        name,
        table,
        ctypes.byref(layer.structure),
        pointer(table),
        ctypes.c_int64(len(table)),
        pointer(weight),
        ctypes.c_int64(layer.wide),
        pointer(found),
    )
    return found


def _tables(embeddings: Embeddings) -> tuple[Tensor, ...]:
    """Of tokens, segments and positions: (R, H)."""
    parts = (embeddings.token, embeddings.segment, embeddings.position)
    return tuple(part.weight.detach() for part in parts)


def _origins(embeddings: Embeddings) -> Origins:
    tables = (embeddings.token, embeddings.segment, embeddings.position)
    norm = embeddings.norm
    return Origins(
        [*((each, "weight") for each in tables), (norm, "weight"), (norm, "bias")],
        wholes=[embeddings],
        settings=[(norm, "eps")],
    )
