"""Tokens of A and B -> `[CLS] A [SEP] B [SEP]` with segments, for a whole batch at once.

It also names what a one-directional language model must predict on such a stream. It knows neither
the corpus nor masks.

Source: Devlin et al. 2018, figure 2; google-research/bert create_pretraining_data.py. Legend: N
sequences, T tokens of the packed stream, C content tokens (T without `[CLS]` and `[SEP]`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bertsmith.batch import starts_of
from bertsmith.randomness import Int64Array

Int32Array = npt.NDArray[np.int32]

_SEGMENT_OF_PIECE = np.array([0, 0, 0, 1, 1], dtype=np.int32)  # [CLS], A, [SEP], B, [SEP]


def assemble(
    content_ids: Int32Array, content_lengths: Int64Array, cls_id: int, sep_id: int
) -> tuple[Int32Array, Int32Array, Int32Array]:
    """Packs N sequences: token_ids (T,), segment_ids (T,), lengths (N,), all int32.

    `content_ids` (C,) holds A and B of each sequence in turn, `content_lengths` (N, 2) their
    lengths. Where B is empty the sequence is `[CLS] A [SEP]`.
    """
    pieces = np.ones((len(content_lengths), 5), dtype=np.int64)
    pieces[:, [1, 3]] = content_lengths
    pieces[:, 4] = content_lengths[:, 1] > 0
    kinds = np.repeat(np.tile(np.arange(5), len(pieces)), pieces.ravel())  # (T,)
    token_ids = np.where(kinds == 0, cls_id, sep_id).astype(np.int32)
    token_ids[(kinds == 1) | (kinds == 3)] = content_ids
    return token_ids, _SEGMENT_OF_PIECE[kinds], pieces.sum(axis=1).astype(np.int32)


def neighbour_targets(
    token_ids: Int32Array, lengths: Int32Array, step: int
) -> tuple[Int64Array, Int32Array]:
    """What a one-directional model predicts: target_rows (M,) ascending and target_ids (M,).

    With step 1 (left to right) every row but a sequence's last predicts the token after it, with
    step -1 (right to left) every row but its first the one before. `[CLS]` and `[SEP]` count too.
    """
    first_rows = starts_of(lengths)
    ends = first_rows + lengths - 1 if step == 1 else first_rows
    has_target = np.ones(len(token_ids), dtype=bool)
    has_target[ends] = False
    rows = np.flatnonzero(has_target).astype(np.int64)
    return rows, token_ids[rows + step]
