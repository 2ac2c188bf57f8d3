"""Sentence numbers -> the token ranges that begin there and hold a wanted number of tokens.

Any sentence is reached from the mark before it (one every 64 sentences), so the work is the same at
the far end of a shard as at its start. n sentences are looked up together.

Source: google-research/bert create_pretraining_data.py (how a random B is filled).
"""

from __future__ import annotations

import numpy as np

from bertsmith.corpus.store import SENTENCES_A_MARK, Shard
from bertsmith.randomness import Int64Array


def fill(shard: Shard, sentences: Int64Array, ends: Int64Array, wanted: Int64Array) -> Int64Array:
    """(n, 2) token ranges of the split: whole sentences until `wanted` tokens or sentence `ends`.

    Sentence numbers are the shard's own; at least one sentence is taken.
    """
    starts = shard.token_base + _token_starts(shard, sentences)
    return np.column_stack([starts, starts + _filled_lengths(shard, sentences, ends, wanted)])


def _token_starts(shard: Shard, sentences: Int64Array) -> Int64Array:
    """(n,) first token of each sentence in its shard: the mark before it and the way from there."""
    marks = sentences // SENTENCES_A_MARK
    window = _lengths(shard, marks * SENTENCES_A_MARK, sentences, SENTENCES_A_MARK)
    starts: Int64Array = shard.every64[marks].astype(np.int64) + window.sum(axis=1)
    return starts


def _filled_lengths(
    shard: Shard, sentences: Int64Array, ends: Int64Array, wanted: Int64Array
) -> Int64Array:
    """(n,) tokens of the fewest sentences that hold `wanted`, or of all up to the end."""
    filled = np.empty(len(sentences), dtype=np.int64)
    pending, width = np.arange(len(sentences)), 8
    while pending.size:
        sums = np.cumsum(_lengths(shard, sentences[pending], ends[pending], width), axis=1)
        reached = sums >= wanted[pending, None]
        column = np.where(reached[:, -1], np.argmax(reached, axis=1), width - 1)
        filled[pending] = np.take_along_axis(sums, column[:, None], axis=1)[:, 0]
        pending = pending[~reached[:, -1] & (sentences[pending] + width < ends[pending])]
        width *= 4
    return filled


def _lengths(shard: Shard, starts: Int64Array, ends: Int64Array, width: int) -> Int64Array:
    """(n, width) lengths of the sentences from each start on, 0 at and past its end."""
    columns = starts[:, None] + np.arange(width)
    lengths = shard.sentence_lengths[np.minimum(columns, shard.num_sentences - 1)]
    return np.where(columns < ends[:, None], lengths.astype(np.int64), 0)
