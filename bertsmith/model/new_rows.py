"""A model's weights and new vocabulary entries -> the same weights with a row for each entry.

A new row begins as the mean of the rows of the pieces that the entry was written with before, in
every table that has a row for each entry. So the model reads the entry nearly as it read its
pieces, and scores it where it scored them. It does not know words.

Differs from google-research/bert (issue 9), where an `[unused]` row keeps the values that it was
drawn with: no text has ever changed them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

ROWS_OF_ENTRIES = ("bert.embeddings.token.weight", "masked_lm.bias", "masked_lm.decoder.weight")
"""The parameters whose first axis is the vocabulary; a decoder only where it is not tied."""


def with_new_rows(
    state: Mapping[str, Tensor], pieces: Mapping[int, Sequence[int]]
) -> dict[str, Tensor]:
    """The state with the rows named in `pieces` (row -> earlier rows) made anew.

    Rows beyond a table's last make it longer. Other tensors are those of `state` themselves.
    """
    grown = dict(state)
    if not pieces:
        return grown
    for name in ROWS_OF_ENTRIES:
        if name in state:
            old = state[name]  # (V, H), or (V,)
            missing = max(0, max(pieces) + 1 - len(old))
            new = torch.cat([old, old.new_zeros((missing, *old.shape[1:]))])
            for row, earlier in pieces.items():
                new[row] = old[list(earlier)].mean(dim=0)
            grown[name] = new
    return grown
