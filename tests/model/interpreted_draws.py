"""Dropout's draws by a GPU's kernels beside the plain ones, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_draws

Triton looks for the variable once, when it is first imported.
"""

from __future__ import annotations

import json

import torch
import triton
import triton.language as tl

from bertsmith.model.dropout import keep_factors
from bertsmith.model.dropout_kernels import keeps
from tests.model.draws import PROBABILITIES, words_at_the_bound

COLUMNS, ROWS = 16, 4096


@triton.jit
def _kept(words, found, num_rows, BAR: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Ones and zeros, by rows and columns, and then the other way round."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    of_rows = tl.load(words + rows, mask=rows < num_rows, other=0)
    kept = keeps(of_rows[:, None], columns[None, :], BAR).to(tl.int32)
    cells = rows[:, None] * COLUMNS + columns[None, :]
    tl.store(found + cells, kept, mask=(rows < num_rows)[:, None])
    kept = keeps(of_rows[None, :], columns[:, None], BAR).to(tl.int32)
    cells = rows[None, :] + (columns[:, None] + COLUMNS) * num_rows
    tl.store(found + cells, kept, mask=(rows < num_rows)[None, :])


def differing(probability: float) -> list[float]:
    """How many draws differ, either way; and the smaller share of kept and dropped ones."""
    words = words_at_the_bound(probability)
    num_rows = len(words)
    assert num_rows <= ROWS
    found = torch.zeros((2, num_rows * COLUMNS), dtype=torch.int32)
    _kept[(1,)](words, found, num_rows, int(probability * 2**31), ROWS, COLUMNS)
    columns = torch.arange(COLUMNS, dtype=torch.int32)
    expected = keep_factors(words[:, None], columns, probability, torch.float32) > 0
    by_rows, by_columns = found[0].view(-1, COLUMNS), found[1].view(COLUMNS, -1).t()
    share = float(expected[:, 0].float().mean())
    return [
        *(float((each.bool() != expected).sum()) for each in (by_rows, by_columns)),
        min(share, 1.0 - share),
    ]


if __name__ == "__main__":
    for each in PROBABILITIES:
        print(json.dumps(differing(each)), flush=True)
