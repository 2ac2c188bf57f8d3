"""A GPU's sums over rows beside their definition, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_sums

Triton looks for the variable once, when it is first imported.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import PackedBatch
from bertsmith.model import gpu_sums
from bertsmith.model.stream import Stream
from tests.model.triton_kernels import patch_triton_once_a_function


class OfRows(NamedTuple):
    """Of tiles of 256 rows and 32 columns."""

    shape: tuple[int, ...]


class ByPlace(NamedTuple):
    """Of tiles of 16 sequences and 128 columns."""

    lengths: tuple[int, ...]
    width: int
    num_segments: int


SHORT_AND_LONG = (3, 1, 7, 2) * 5
CASES = [
    OfRows((1, 32)),
    OfRows((300, 70)),
    OfRows((3, 256, 48)),
    OfRows((2, 513, 31)),
    ByPlace((5,), 32, 2),
    ByPlace(SHORT_AND_LONG, 130, 2),
    ByPlace(SHORT_AND_LONG, 48, 1),
]


def errors(case: OfRows | ByPlace, device: str = "cpu") -> list[float]:
    """Against float64, as shares of the sums' size."""
    of = of_rows(*case, device=device) if isinstance(case, OfRows) else by_place(*case, device)
    return [float((other.double() - one).norm() / one.norm()) for one, other in of]


def of_rows(
    shape: Sequence[int], dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> list[tuple[Tensor, Tensor]]:
    """What is expected, and what is found."""
    rows = torch.randn(*shape, generator=torch.Generator().manual_seed(1)).to(device)
    return [(rows.double().sum(-2), gpu_sums.of_rows(rows, dtype))]


def by_place(
    lengths: Sequence[int], width: int, num_segments: int, device: str = "cpu"
) -> list[tuple[Tensor, Tensor]]:
    """The same of places and of segments, among which an id is beyond the last; of spare rows."""
    stream = stream_of(lengths, device)
    generator = torch.Generator().manual_seed(width)
    rows = torch.randn(len(stream.token_ids), width, generator=generator).to(device)
    exact = rows[: stream.num_tokens].double()
    places = exact.new_zeros(max(lengths), width)
    places.index_add_(0, stream.positions[: stream.num_tokens], exact)
    segments = exact.new_zeros(num_segments, width)
    ids = stream.segment_ids[: stream.num_tokens].clamp(max=num_segments - 1)
    segments.index_add_(0, ids, exact)
    found = gpu_sums.by_place(rows, stream, num_segments, torch.float32)
    return list(zip((places, segments), found, strict=True))


def stream_of(lengths: Sequence[int], device: str) -> Stream:
    """With spare rows behind its tokens."""
    total = sum(lengths)
    packed = PackedBatch(
        token_ids=np.arange(total, dtype=np.int32),
        segment_ids=np.arange(total, dtype=np.int32) % 3,
        lengths=np.array(lengths),
        keys=np.arange(len(lengths)),
    )
    return Stream.of(packed, device=device, is_rounded=True)


if __name__ == "__main__":
    patch_triton_once_a_function()
    torch.use_deterministic_algorithms(True)  # what is not written is not a number
    for case in CASES:
        print(json.dumps(errors(case)), flush=True)
