"""Hidden states of sequences -> the mean of each on a CPU, in one call: of a model that answers.

`pooling.pool_sentences` is the definition. Texts of many lengths are as many rectangles, and torch
takes longer to be asked for the mean of one than a CPU to make it.

Legend: T tokens, N sequences, H hidden size.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.model.stream import Stream
from bertsmith.native import call, pointer, takes

SOURCE = Path(__file__).with_suffix(".cpp")


def means(hidden: Tensor, stream: Stream) -> Tensor | None:
    """(T, H) -> (N, H) float32; None where it is not for this function: a gradient is wanted."""
    firsts, lasts = stream.first_rows, stream.last_rows
    if torch.is_grad_enabled() or hidden.dim() != 2 or not hidden.is_contiguous():
        return None
    count, width = firsts.shape[0], hidden.shape[1]
    is_whole = count > 0 and hidden.shape[0] >= stream.num_tokens
    if not is_whole or not takes(SOURCE, hidden, firsts, lasts):
        return None
    found = hidden.new_empty((count, width), dtype=torch.float32)  # (N, H)
    call(
        SOURCE,
        "means",
        hidden,
        *map(pointer, (hidden, firsts, lasts)),
        ctypes.c_int64(count),
        ctypes.c_int64(width),
        pointer(found),
    )
    return found
