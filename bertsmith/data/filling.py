"""Sentence numbers -> the token ranges that begin there and hold a wanted number of tokens.

n sentences are looked up together.

Source: google-research/bert create_pretraining_data.py (how a random B is filled).
"""

from __future__ import annotations

import numpy as np

from bertsmith.corpus.spans import Spans
from bertsmith.corpus.store import Shard
from bertsmith.randomness import Int64Array


def fill(shard: Shard, sentences: Int64Array, ends: Int64Array, wanted: Int64Array) -> Int64Array:
    """(n, 2) token ranges of the split: whole sentences until `wanted` tokens or sentence `ends`.

    Sentence numbers are the shard's own; at least one sentence is taken.
    """
    starts = shard.token_base + shard.sentences.starts(sentences)
    return np.column_stack(
        [starts, starts + _filled_lengths(shard.sentences, sentences, ends, wanted)]
    )


def _filled_lengths(
    spans: Spans, sentences: Int64Array, ends: Int64Array, wanted: Int64Array
) -> Int64Array:
    """(n,) tokens of the fewest sentences that hold `wanted`, or of all up to the end."""
    filled = np.empty(len(sentences), dtype=np.int64)
    pending, width = np.arange(len(sentences)), 8
    while pending.size:
        sums = np.cumsum(spans.window(sentences[pending], ends[pending], width), axis=1)
        reached = sums >= wanted[pending, None]
        column = np.where(reached[:, -1], np.argmax(reached, axis=1), width - 1)
        filled[pending] = np.take_along_axis(sums, column[:, None], axis=1)[:, 0]
        pending = pending[~reached[:, -1] & (sentences[pending] + width < ends[pending])]
        width *= 4
    return filled
