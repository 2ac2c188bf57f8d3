"""Vectors of tokens -> vectors of words, and vectors of windows -> the vector of their text.

A word is what the tokenizer cuts into pieces: runs of letters, and each punctuation mark alone.

Source: Devlin et al. 2018, section 5.3 (a word is represented by its first piece).

Legend: n tokens, m words, W width of a pooled vector, P windows, D width of all poolings,
V of a text's vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray
from bertsmith.features.plan import WordPooling
from bertsmith.model.pooling import Dense, finished
from bertsmith.model.sentence import Pooling, SentenceConfig


def pool_words(vectors: Tensor, words: IntArray, pooling: WordPooling) -> Tensor:
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


def text_vectors(
    windows: Sequence[Sequence[Tensor]],
    num_rows: Sequence[Sequence[int]],
    config: SentenceConfig,
    dense: Dense | None,
) -> Tensor:
    """The pooled windows (D,) of each text, and their rows -> (texts, V), a vector each."""
    pairs = zip(windows, num_rows, strict=True)
    pooled = torch.stack([pool_windows(*each, config.pooling) for each in pairs])  # (texts, D)
    device = pooled.device if dense is None else dense.linear.weight.device
    with torch.inference_mode():
        return finished(pooled.to(device), config, dense).cpu()  # (texts, V)


def pool_windows(
    pooled: Sequence[Tensor], num_rows: Sequence[int], pooling: tuple[Pooling, ...]
) -> Tensor:
    """P vectors (D,), pooled over so many rows each -> (D,), as if pooled over all rows at once.

    Their poolings lie side by side, in the order given; each window was pooled with the number of
    rows in the windows before it.
    """
    parts = zip(*(each.chunk(len(pooling)) for each in pooled), strict=True)
    found = [_pooled(part, num_rows, each) for part, each in zip(parts, pooling, strict=True)]
    return torch.cat(found)  # (D,)


def _pooled(pooled: Sequence[Tensor], num_rows: Sequence[int], pooling: Pooling) -> Tensor:
    """P vectors (W,) of one pooling -> (W,)."""
    if pooling == "cls":  # the first window's: no other one reads the beginning
        return pooled[0]
    if pooling == "lasttoken":
        return pooled[-1]
    stacked = torch.stack(list(pooled))  # (P, W)
    if pooling == "max":
        return stacked.amax(dim=0)
    return _shares(torch.tensor(num_rows, dtype=stacked.dtype), pooling) @ stacked  # (W,)


def _shares(counts: Tensor, pooling: Pooling) -> Tensor:
    """(P,) rows of each window -> (P,): with how much of its pooled vector it counts."""
    if pooling == "weightedmean":  # a row weighs the number of its place
        weights = counts * (counts.cumsum(0) - counts + (counts + 1) / 2)
        return weights / weights.sum()
    if pooling == "mean_sqrt_len_tokens":
        return (counts / counts.sum()).sqrt()
    assert pooling == "mean", pooling
    return counts / counts.sum()


def _borders(words: IntArray) -> tuple[IntArray, IntArray]:
    """(m,) int64 each: where every word begins, and behind its last token."""
    firsts = np.flatnonzero(np.diff(words, prepend=-1))
    return firsts, np.append(firsts, len(words))[1:]
