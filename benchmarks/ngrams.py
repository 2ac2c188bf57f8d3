"""A corpus and a few hidden tokens -> what n-gram models of that corpus would put there.

One pass over the memory-mapped tokens counts, for every question, which tokens stand in its
contexts; contexts that no question has are not counted, so memory depends on the questions and the
vocabulary, never on the corpus. An n-gram ends at its sentence's ends, where two marks stand.

    unigram             by frequency alone
    trigram             by the two tokens on the left, backing off to one and to none
    trigram_both_sides  by two tokens on either side: the trigram of the left times that of the
                        right, as if the sides were independent, and the gap between the two
                        neighbours where the corpus has it

Every level is joined with the one below by Witten and Bell's rule, which has nothing to tune.

Source: Witten and Bell 1991, The zero-frequency problem (method C); Chen and Goodman 1998, section
2.4 (its interpolated form).

Legend: Q questions, C different contexts, V vocabulary, T tokens and S sentences of a chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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

Int64Array = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Baselines:
    """Counts of a training split, enough to answer the questions they were counted for."""

    unigrams: FloatArray
    """(V,) share of every token; special tokens have none, and are never put anywhere."""
    counts: dict[tuple[int, ...], Int64Array]
    """For every context, (C, V): how often each token stands in it."""
    rows: dict[tuple[int, ...], Int64Array]
    """For every context, (Q,): the row of `counts` that a question has."""

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
        counts = self.counts[context][self.rows[context][question]]  # (V,)
        total, num_different = counts.sum(), np.count_nonzero(counts)
        if total == 0:
            return lower
        joined: FloatArray = (counts + num_different * lower) / (total + num_different)
        return joined


def count(corpus: Corpus, windows: Int64Array, special_ids: frozenset[int]) -> Baselines:
    """Counts the contexts of Q questions in the corpus's tokens.

    `windows` (Q, 4) holds the tokens at OFFSETS from the hidden one, and the vocabulary's size
    beyond the ends of its sentence.
    """
    vocab_size = corpus.manifest.vocab_size
    counters = {
        context: _Counter(windows, context, vocab_size, special_ids) for context in _CONTEXTS
    }
    for shard in corpus.shards:
        for sentences, rows in _chunks(shard, mark=vocab_size):
            for counter in counters.values():
                counter.add(sentences, rows)
    unigrams = corpus.token_counts.astype(np.float64)
    unigrams[list(special_ids)] = 0.0
    return Baselines(
        unigrams=unigrams / unigrams.sum(),
        counts={context: counter.counts for context, counter in counters.items()},
        rows={context: counter.rows for context, counter in counters.items()},
    )


class _Counter:
    """Counts the tokens that stand in one kind of context."""

    def __init__(
        self,
        windows: Int64Array,
        context: tuple[int, ...],
        vocab_size: int,
        special_ids: frozenset[int],
    ) -> None:
        self._context = context
        self._vocab_size = vocab_size
        self._is_special = np.zeros(vocab_size + 1, dtype=np.bool_)
        self._is_special[list(special_ids)] = True
        columns = [windows[:, OFFSETS.index(offset)] for offset in context]
        self._codes, self.rows = np.unique(self._code(columns), return_inverse=True)
        self._may_begin = np.zeros(vocab_size + 1, dtype=np.bool_)
        self._may_begin[columns[0]] = True
        self.counts = np.zeros((len(self._codes), vocab_size), dtype=np.int64)

    def add(self, sentences: IntArray, rows: Int64Array) -> None:
        """Counts the tokens at `rows` (T,) of the marked `sentences`."""
        first = self._context[0]
        # Most tokens leave here, before anything dear is done with them.
        rows = rows[self._may_begin[sentences[rows + first]]]
        rows = rows[~self._is_special[sentences[rows]]]
        codes = self._code([sentences[rows + offset].astype(np.int64) for offset in self._context])
        places = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        found = self._codes[places] == codes
        cells = places[found] * self._vocab_size + sentences[rows[found]]
        self.counts += np.bincount(cells, minlength=self.counts.size).reshape(self.counts.shape)

    def _code(self, columns: list[Int64Array]) -> Int64Array:
        codes = columns[0]
        for column in columns[1:]:
            codes = codes * (self._vocab_size + 1) + column
        return codes


def _chunks(shard: Shard, mark: int) -> Iterator[tuple[IntArray, Int64Array]]:
    """Whole sentences of about _CHUNK_TOKENS with two marks around each, and their tokens' rows."""
    ends = np.cumsum(shard.sentence_lengths, dtype=np.int64)  # (S,)
    start = 0
    for end in _cuts(ends):
        lengths = shard.sentence_lengths[start:end]
        first_token = int(ends[start] - lengths[0])
        tokens = shard.tokens[first_token : int(ends[end - 1])]  # (T,)
        num_marks = 2 * np.arange(1, end - start + 1)
        rows = np.arange(len(tokens)) + np.repeat(num_marks, lengths)  # (T,)
        sentences = np.full(len(tokens) + 2 * (end - start) + 2, mark, dtype=np.int32)
        sentences[rows] = tokens
        yield sentences, rows
        start = end


def _cuts(ends: Int64Array) -> list[int]:
    """Sentence numbers at which chunks end; the last is the number of sentences."""
    if not len(ends):
        return []
    wanted = np.arange(_CHUNK_TOKENS, int(ends[-1]), _CHUNK_TOKENS)
    cuts = np.searchsorted(ends, wanted, side="left") + 1
    return np.unique(np.append(cuts, len(ends))).tolist()
