"""A corpus and hidden tokens -> what n-gram models of that corpus would put there.

One pass over the memory-mapped tokens counts, for every question, which tokens stand in its
contexts; contexts that no question has are not counted, so memory depends on what stands in those
asked for, not on the corpus's length. An n-gram ends where its sentence ends, or its document: two
marks stand there.

    unigram             by frequency alone
    trigram             by the two tokens on the left, backing off to one and to none
    trigram_both_sides  by two tokens on either side: the trigram of the left times that of the
                        right, as if the sides were independent, and the gap between the two
                        neighbours where the corpus has it

Every level is joined with the one below by Witten and Bell's rule, which has nothing to tune. A
context that the corpus never has, such as a hidden neighbour's, leaves the level below as it is.

Source: Witten and Bell 1991, The zero-frequency problem (method C); Chen and Goodman 1998, section
2.4 (its interpolated form).

Legend: Q questions, C different contexts, V vocabulary, T tokens and S units of a chunk, P pairs of
a context and a token in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from benchmarks.questions import OFFSETS
from bertsmith.batch import IntArray
from bertsmith.corpus.store import Corpus, Shard

SYSTEMS = ("unigram", "trigram", "trigram_both_sides")
# Places that, read together, are a context of the hidden token at 0.
_CONTEXTS = ((-1,), (-2, -1), (1,), (1, 2), (-1, 1))
# Tokens counted at once: some 150 MB of temporary arrays.
_CHUNK_TOKENS = 1 << 21

Unit = Literal["sentence", "document"]
Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Counts:
    """How often each token stands in each of C contexts."""

    starts: Int64Array
    """(C + 1,) where each context's pairs begin; the last is P."""
    token_ids: Int64Array
    """(P,) the tokens of each context, ascending."""
    times: Int64Array
    """(P,) how often each stands there."""

    def of(self, context: int) -> tuple[Int64Array, Int64Array]:
        """The tokens that stand in one context, and how often."""
        pairs = slice(int(self.starts[context]), int(self.starts[context + 1]))
        return self.token_ids[pairs], self.times[pairs]


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Counts of a training split, enough to answer the questions they were counted for."""

    unigrams: FloatArray
    """(V,) the lowest level: share of every token; tokens left out are never put anywhere."""
    counts: dict[tuple[int, ...], Counts]
    """For every kind of context: what stands in it."""
    rows: dict[tuple[int, ...], Int64Array]
    """For every kind of context, (Q,): the context that a question has."""

    def probabilities(self, question: int) -> dict[str, FloatArray]:
        """For each of SYSTEMS, (V,) the probability of every token at the hidden place."""
        left = self._joined(question, (-2, -1), self._joined(question, (-1,), self.unigrams))
        right = self._joined(question, (1, 2), self._joined(question, (1,), self.unigrams))
        sides = np.divide(
            left * right, self.unigrams, out=np.zeros_like(left), where=self.unigrams > 0
        )
        both = self._joined(question, (-1, 1), sides / sides.sum())
        return {"unigram": self.unigrams, "trigram": left, "trigram_both_sides": both}

    def _joined(self, question: int, context: tuple[int, ...], lower: FloatArray) -> FloatArray:
        token_ids, times = self.counts[context].of(self.rows[context][question])
        total, num_different = times.sum(), len(token_ids)
        if total == 0:
            return lower
        joined = num_different * lower
        joined[token_ids] += times
        joined /= total + num_different
        return joined


def count(
    corpus: Corpus, windows: Int64Array, left_out: frozenset[int], unit: Unit = "sentence"
) -> Baselines:
    """Counts the contexts of Q questions in the corpus's tokens.

    `windows` (Q, 4) holds the tokens at OFFSETS from the hidden one, and the vocabulary's size
    beyond the ends of its unit. Tokens `left_out` are context, but are never put anywhere.
    """
    vocab_size = corpus.manifest.vocab_size
    counters = {context: _Counter(windows, context, vocab_size, left_out) for context in _CONTEXTS}
    for shard in corpus.shards:
        for stream, rows in _chunks(shard, unit, mark=vocab_size):
            for counter in counters.values():
                counter.add(stream, rows)
    unigrams = corpus.token_counts.astype(np.float64)
    unigrams[list(left_out)] = 0.0
    return Baselines(
        unigrams=unigrams / unigrams.sum(),
        counts={context: counter.counts() for context, counter in counters.items()},
        rows={context: counter.rows for context, counter in counters.items()},
    )


class _Counter:
    """Counts the tokens that stand in one kind of context."""

    def __init__(
        self,
        windows: Int64Array,
        context: tuple[int, ...],
        vocab_size: int,
        left_out: frozenset[int],
    ) -> None:
        self._context = context
        self._vocab_size = vocab_size
        self._is_left_out = np.zeros(vocab_size + 1, dtype=np.bool_)
        self._is_left_out[list(left_out)] = True
        columns = [windows[:, OFFSETS.index(offset)] for offset in context]
        self._codes, self.rows = np.unique(self._code(columns), return_inverse=True)
        self._may_begin = np.zeros(vocab_size + 1, dtype=np.bool_)
        self._may_begin[columns[0]] = True
        nothing = np.array([], dtype=np.int64)
        # Pairs as (context * V + token, times), ascending; the first part is the largest.
        self._parts = [(nothing, nothing)]

    def add(self, stream: IntArray, rows: Int64Array) -> None:
        """Counts the tokens at `rows` (T,) of the marked `stream`."""
        first = self._context[0]
        # Most tokens leave here, before anything dear is done with them.
        rows = rows[self._may_begin[stream[rows + first]]]
        rows = rows[~self._is_left_out[stream[rows]]]
        codes = self._code([stream[rows + offset].astype(np.int64) for offset in self._context])
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        found = self._codes[places] == codes
        cells = places[found] * self._vocab_size + stream[rows[found]]
        self._parts.append(np.unique(cells, return_counts=True))
        if sum(len(cells) for cells, _ in self._parts[1:]) > len(self._parts[0][0]):
            self._parts = [_merged(self._parts)]

    def counts(self) -> Counts:
        """What was counted."""
        cells, times = _merged(self._parts)
        return Counts(
            starts=np.searchsorted(cells // self._vocab_size, np.arange(len(self._codes) + 1)),
            token_ids=cells % self._vocab_size,
            times=times,
        )

    def _code(self, columns: list[Int64Array]) -> Int64Array:
        codes = columns[0]
        for column in columns[1:]:
            codes = codes * (self._vocab_size + 1) + column
        return codes


def _merged(parts: list[tuple[Int64Array, Int64Array]]) -> tuple[Int64Array, Int64Array]:
    """Equal cells added up, ascending."""
    cells, numbers = np.unique(np.concatenate([cells for cells, _ in parts]), return_inverse=True)
    times = np.concatenate([times for _, times in parts])
    # Sums in float64, exact up to 2**53.
    return cells, np.bincount(numbers, times, minlength=len(cells)).astype(np.int64)


def _chunks(shard: Shard, unit: Unit, mark: int) -> Iterator[tuple[IntArray, Int64Array]]:
    """Whole units of about _CHUNK_TOKENS with two marks around each, and their tokens' rows."""
    unit_lengths = shard.sentences.all_lengths()
    if unit == "document":
        unit_lengths = np.diff(shard.sentences.edges()[shard.documents.edges()])
    ends = np.cumsum(unit_lengths, dtype=np.int64)  # (S,)
    start = 0
    for end in _cuts(ends):
        lengths = unit_lengths[start:end]
        first_token = int(ends[start] - lengths[0])
        tokens = shard.tokens[first_token : int(ends[end - 1])]  # (T,)
        num_marks = 2 * np.arange(1, end - start + 1)
        rows = np.arange(len(tokens)) + np.repeat(num_marks, lengths)  # (T,)
        stream = np.full(len(tokens) + 2 * (end - start) + 2, mark, dtype=np.int32)
        stream[rows] = tokens
        yield stream, rows
        start = end


def _cuts(ends: Int64Array) -> list[int]:
    """Unit numbers at which chunks end; the last is the number of units."""
    if not len(ends):
        return []
    wanted = np.arange(_CHUNK_TOKENS, int(ends[-1]), _CHUNK_TOKENS)
    cuts = np.searchsorted(ends, wanted, side="left") + 1
    return np.unique(np.append(cuts, len(ends))).tolist()
