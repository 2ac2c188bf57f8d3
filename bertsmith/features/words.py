"""Vectors of tokens -> vectors of words, and vectors of windows -> the vector of their text.

A word is what the tokenizer cuts into pieces: runs of letters, and each punctuation mark alone.

Source: Devlin et al. 2018, section 5.3 (a word is represented by its first piece).

Legend: n tokens, m words, W width of a vector, P windows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray
from bertsmith.features.plan import Pooling


def pool_words(vectors: Tensor, words: IntArray, pooling: Pooling) -> Tensor:
    """(n, W) vectors and (n,) rising word numbers -> (m, W): each word's first, last or mean."""
    firsts, ends = _borders(words)
    if pooling == "first":
        return vectors[torch.from_numpy(firsts)]  # (m, W)
    if pooling == "last":
        return vectors[torch.from_numpy(ends - 1)]  # (m, W)
    assert pooling == "mean", pooling
    counts = torch.from_numpy(ends - firsts)  # (m,)
    word_of = torch.arange(len(firsts)).repeat_interleave(counts)  # (n,)
    sums = vectors.new_zeros(len(firsts), vectors.shape[1]).index_add(0, word_of, vectors)
    return sums / counts[:, None]  # (m, W)


def word_spans(spans: IntArray, words: IntArray) -> IntArray:
    """(n, 2) characters of tokens and (n,) rising word numbers -> (m, 2) characters of words."""
    firsts, ends = _borders(words)
    return np.stack([spans[firsts, 0], spans[ends - 1, 1]], axis=1)  # (m, 2)


def pool_windows(pooled: Sequence[Tensor], num_rows: Sequence[int], pooling: Pooling) -> Tensor:
    """P vectors (W,), pooled over so many rows each -> (W,), as if pooled over all rows at once.

    `[CLS]` is the first window's: no other window reads the beginning.
    """
    if pooling == "cls":
        return pooled[0]
    stacked = torch.stack(list(pooled))  # (P, W)
    if pooling == "max":
        return stacked.amax(dim=0)
    assert pooling == "mean", pooling
    shares = torch.tensor(num_rows, dtype=stacked.dtype) / sum(num_rows)  # (P,)
    return shares @ stacked  # (W,)


def _borders(words: IntArray) -> tuple[IntArray, IntArray]:
    """(m,) int64 each: where every word begins, and behind its last token."""
    firsts = np.flatnonzero(np.diff(words, prepend=-1))
    return firsts, np.append(firsts, len(words))[1:]
