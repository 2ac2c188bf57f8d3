"""Hidden states through layers of a model that only answers, on a CPU, in one call for all of them.

`cpu_layer` laid their weights out, and says what the definition is.

Legend: T rows, R rows asked for, H hidden size, L layers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from bertsmith.model.cpu_layer import ReadyLayer
from bertsmith.model.cpu_token_projections import Projected, TokenProjections
from bertsmith.model.stream import Stream
from bertsmith.native import call, pointer, takes


def suits(
    layers: Sequence[ReadyLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> bool:
    """Whether layers are the same still, and these hidden states are to go through them so."""
    source, dtype, width = kind = layers[0].kind
    is_counted = rows is None or (rows.dtype == torch.int64 and rows.shape[0] > 0)
    return (
        not torch.is_grad_enabled()
        and hidden.dtype == dtype
        and stream.row_keys is None
        and hidden.shape == (stream.num_tokens, width)
        and hidden.shape[0] > 0
        and is_counted
        and all(each.kind == kind for each in layers)
        and takes(source, hidden, stream.first_rows, *([] if rows is None else [rows]))
        and all(each.is_unchanged() for each in layers)
    )


def through(
    layers: Sequence[ReadyLayer], hidden: Tensor, stream: Stream, rows: Tensor | None
) -> Tensor:
    """(T, H) hidden states -> (T, H) hidden states, or of (R,) rows of the last layer, (R, H).

    Raises IndexError for a row that is not there.
    """
    found = _through(layers, hidden.contiguous(), stream, rows, None)
    assert found is not None
    return found


def from_ids(
    layers: Sequence[ReadyLayer],
    projections: TokenProjections,
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
) -> Tensor | None:
    """As `through`, of the hidden states of the stream's ids, which are put into (T, H) `hidden`.

    Of a lone layer all rows are asked for. None where a table has no row for an id.
    """
    assert rows is None or len(layers) > 1, "a lone layer has room for the rows asked for alone"
    return _through(layers, hidden, stream, rows, projections.of(stream, hidden))


def _through(
    layers: Sequence[ReadyLayer],
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
    projected: Projected | None,
) -> Tensor | None:
    rows = None if rows is None else rows.contiguous()
    is_pooled = rows is not None and _are_ends(rows, stream)
    if rows is not None and not is_pooled:
        lowest, highest = (int(each) for each in rows.aminmax())
        if lowest < 0 or highest >= len(hidden):
            raise IndexError(f"rows must be 0 to {len(hidden) - 1}: {lowest} to {highest}")
    count = (hidden if rows is None else rows).shape[0]
    output = hidden.new_empty(count, hidden.shape[1])
    *others, last = layers
    told = [
        *(each.structure for each in others),
        last.structure_for_pooling() if is_pooled else last.structure,
    ]
    structures = (ctypes.c_void_p * len(layers))(*map(ctypes.addressof, told))
    status = call(
        layers[0].source,
        "layers",
        hidden,
        structures,
        ctypes.c_int64(len(layers)),
        *map(pointer, (hidden, stream.first_rows, stream.last_rows)),
        ctypes.c_int64(stream.first_rows.shape[0]),
        pointer(rows),
        ctypes.c_int64(count),
        None if projected is None else ctypes.byref(projected),
        pointer(output),
    )
    return output if status == 0.0 else None


def _are_ends(rows: Tensor, stream: Stream) -> bool:
    """Whether they are the first of every sequence, or the last, as a pooler reads them."""
    ends = (stream.first_rows, stream.last_rows)
    if any(rows is each for each in ends):
        return True
    if len(rows) != len(ends[0]):
        return False
    rising = rows.sort().values
    return any(torch.equal(rising, each) for each in ends)
