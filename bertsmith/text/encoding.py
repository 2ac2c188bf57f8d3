"""The tokens of many texts, end to end -> special tokens around them, and an encoding a text.

Everything is done for a whole batch at once: an array operation a text costs more than the text's
tokens. This file knows no rules and no vocabulary.

Legend: T tokens, P texts or pieces of texts.

Source: google-research/bert, extract_features.py (convert_examples_to_features).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bertsmith.batch import starts_of

IntArray = npt.NDArray[np.int32]
Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """The n tokens of one text or pair."""

    ids: IntArray
    """(n,) rows of the vocabulary."""
    spans: IntArray
    """(n, 2) first and past-the-last character in the token's own original text; (0, 0) for the
    special tokens that encoding added."""
    words: IntArray
    """(n,) number of the word inside its own text; -1 for the special tokens that were added."""
    segments: IntArray
    """(n,) 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`."""


class Tokens(NamedTuple):
    """The tokens of texts, end to end."""

    ids: IntArray
    """(T,) rows of the vocabulary."""
    spans: IntArray
    """(T, 2) first and past-the-last character in the token's own text as the user wrote it."""
    words: IntArray
    """(T,) number of the word in the token's own text."""
    counts: Counts
    """(P,) tokens of each text, summing to T."""


def between_special_tokens(tokens: Tokens, is_first: Sequence[bool], cls: int, sep: int) -> Tokens:
    """`[CLS]` before every text that is the first of its pair or alone, `[SEP]` behind each."""
    first = np.array(is_first, dtype=np.int64)
    counts = tokens.counts + first + 1
    starts = starts_of(counts)
    shift = starts + first - starts_of(tokens.counts)
    places = np.arange(len(tokens.ids)) + np.repeat(shift, tokens.counts)
    ids = np.full(counts.sum(), sep, np.int32)
    ids[starts[first == 1]] = cls
    ids[places] = tokens.ids
    spans = np.zeros((len(ids), 2), np.int32)
    spans[places] = tokens.spans
    words = np.full(len(ids), -1, np.int32)
    words[places] = tokens.words
    return Tokens(ids, spans, words, counts)


def encodings(tokens: Tokens, is_first: Sequence[bool]) -> list[Encoding]:
    """One for each text that is alone, and for each pair."""
    starts = starts_of(tokens.counts)[np.flatnonzero(is_first)].tolist()
    segments = np.repeat(np.logical_not(is_first).astype(np.int32), tokens.counts)
    ids, spans, words, _ = tokens
    return [
        Encoding(
            ids=ids[start:end],
            spans=spans[start:end],
            words=words[start:end],
            segments=segments[start:end],
        )
        for start, end in pairwise([*starts, len(ids)])
    ]


def with_entries(between: Tokens, pieces: Sequence[Sequence[str]], ids: Sequence[int]) -> Tokens:
    """Texts' tokens where entries of the vocabulary were cut out whole.

    Each text's `pieces` are text, entry, text, ..., text; `between` are the tokens of the texts
    among them, and `ids` the rows of the entries, both in the order of the pieces.
    """
    num_pieces = np.array([len(of_one) for of_one in pieces], np.int64)
    is_entry = _number_within(num_pieces) % 2 == 1
    lengths = np.array([len(piece) for of_one in pieces for piece in of_one], np.int64)
    counts = np.ones(len(lengths), np.int64)
    counts[~is_entry] = between.counts
    num_words = np.ones(len(lengths), np.int64)
    num_words[~is_entry] = _num_words(between)
    is_whole = np.repeat(is_entry, counts)  # (T,)
    all_ids = np.empty(len(is_whole), np.int32)
    all_ids[is_whole] = ids
    all_ids[~is_whole] = between.ids
    spans = np.zeros((len(is_whole), 2), np.int32)
    spans[is_whole, 1] = lengths[is_entry]
    spans[~is_whole] = between.spans
    spans += np.repeat(_sum_before(lengths, num_pieces), counts)[:, None].astype(np.int32)
    words = np.zeros(len(is_whole), np.int32)
    words[~is_whole] = between.words
    words += np.repeat(_sum_before(num_words, num_pieces), counts).astype(np.int32)
    return Tokens(all_ids, spans, words, np.add.reduceat(counts, starts_of(num_pieces)))


def _num_words(tokens: Tokens) -> Counts:
    """(P,) words of each text: the number of its last token's word, and one."""
    numbers = np.append(tokens.words, -1)  # what a text without tokens finds, wherever it stands
    ends = np.cumsum(tokens.counts)
    return numbers[np.where(tokens.counts > 0, ends - 1, -1)] + np.int64(1)


def _sum_before(values: Counts, group_sizes: Counts) -> Counts:
    """Of each value: the sum of those before it in its own group."""
    before = np.cumsum(values) - values
    return before - np.repeat(before[starts_of(group_sizes)], group_sizes)


def _number_within(group_sizes: Counts) -> Counts:
    """0, 1, 2, ... in each group."""
    return _sum_before(np.ones(group_sizes.sum(), np.int64), group_sizes)
