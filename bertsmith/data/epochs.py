"""A corpus -> the endless sequence of its rows, epoch after epoch, readable from any place.

Row i is a function of (seed, i): no history is kept, which is what makes a step a pure function of
its number. That is possible because an epoch's layout is fixed before anything is drawn:

- Each shard owes a fixed number of rows to every epoch, its quota. It is measured once on a pass of
  its own: on every shard of a corpus of at most eight, else on eight evenly spaced ones and scaled
  by tokens. So start-up does not grow with the corpus.
- A pass over a shard gives slightly more or fewer rows each time, as its pairs are drawn anew. More
  than the quota: a random selection. Fewer: rows of a further pass are added. That is the
  definition of an epoch here.
- Shards are visited in a random order, four at a time; the rows of such a group are shuffled
  together, and two groups are kept. So memory does not grow with the corpus either.

This file knows ranges of token numbers, never a token.

Source: google-research/bert create_pretraining_data.py (copies of the corpus, instances shuffled).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from bertsmith.corpus.store import Corpus
from bertsmith.data.pairs import PairRules, draw
from bertsmith.randomness import Int64Array, Stream, permutation

SHARDS_MEASURED = 8
SHARDS_A_GROUP = 4
GROUPS_KEPT = 2
MEASURING_PASS = -1
FURTHER_PASS = 1 << 32  # added to a pass's number for each further pass over the same shard


@dataclass(frozen=True, kw_only=True)
class Measure:
    """What the measuring pass found on the shards it drew."""

    quotas: Int64Array
    """(number of shards,) rows each shard gives to an epoch."""
    tokens_per_row: float
    """Mean tokens of A and B together."""
    random_share: float
    """Share of rows whose B is random."""
    documents: int
    one_sentence_documents: int


class Epochs:
    """The rows of a corpus, in an order that is new in every epoch."""

    def __init__(self, corpus: Corpus, rules: PairRules, fixed_copies: int, seed: int) -> None:
        """`fixed_copies` n > 0: epoch e repeats the rows of epoch e - n, in another order."""
        self._corpus = corpus
        self._rules = rules
        self._fixed_copies = fixed_copies
        self._seed = seed
        self.measure = _measure(corpus, rules, seed)
        self.rows_per_epoch = int(self.measure.quotas.sum())
        self._kept: tuple[tuple[tuple[int, int], Int64Array], ...] = ()

    def rows(self, first: int, count: int) -> Int64Array:
        """(count, 6) from row `first` on: the five columns of `pairs.draw`, and the pass number."""
        parts: list[Int64Array] = []
        while count > 0:
            epoch, place = divmod(first, self.rows_per_epoch)
            totals = np.cumsum(self.measure.quotas[self._shard_order(epoch)])
            edges = np.append(0, totals[SHARDS_A_GROUP - 1 :: SHARDS_A_GROUP])
            group = int(np.searchsorted(edges, place, side="right")) - 1
            here = self._group(epoch, group)[place - int(edges[group]) :][:count]
            parts.append(here)
            first, count = first + len(here), count - len(here)
        return np.concatenate(parts)

    def __getstate__(self) -> dict[str, object]:
        """Goes to another process without the groups at hand, which are drawn again there."""
        return {**self.__dict__, "_kept": ()}

    def _group(self, epoch: int, group: int) -> Int64Array:
        """The shuffled rows of a group of shards: one of the two at hand, or drawn now."""
        for name, rows in self._kept:
            if name == (epoch, group):
                return rows
        start = group * SHARDS_A_GROUP
        shards = self._shard_order(epoch)[start : start + SHARDS_A_GROUP]
        rows = np.concatenate([self._visit(int(shard), epoch) for shard in shards])
        rows = rows[self._permutation(len(rows), _Purpose.GROUP, epoch, group)]
        # One assignment of a new tuple, so that a second thread never sees it half changed.
        self._kept = (((epoch, group), rows), *self._kept)[:GROUPS_KEPT]
        return rows

    def _visit(self, shard: int, epoch: int) -> Int64Array:
        """(quota, 6) rows of one shard: some of a pass, or all of it and some of a further one."""
        pass_number = epoch % self._fixed_copies if self._fixed_copies else epoch
        missing = int(self.measure.quotas[shard])
        parts: list[Int64Array] = []
        while missing > 0:
            rows = draw(
                self._corpus.shards[shard], self._corpus, self._rules, self._seed, pass_number
            )
            order = self._permutation(len(rows), _Purpose.SELECTION, pass_number, shard)
            rows = rows[order[:missing]]
            parts.append(np.column_stack([rows, np.full(len(rows), pass_number)]))
            missing -= len(rows)
            pass_number += FURTHER_PASS
        return np.concatenate(parts)

    def _shard_order(self, epoch: int) -> Int64Array:
        return self._permutation(len(self.measure.quotas), _Purpose.SHARDS, epoch, 0)

    def _permutation(self, size: int, purpose: _Purpose, *counters: int) -> Int64Array:
        length = self._rules.sequence_length
        return permutation(size, self._seed, Stream.SHUFFLE, length, purpose, *counters)


class _Purpose(IntEnum):
    SHARDS = 1
    GROUP = 2
    SELECTION = 3


def _measure(corpus: Corpus, rules: PairRules, seed: int) -> Measure:
    """Draws the measuring pass on at most eight shards and derives every shard's quota."""
    num_shards = len(corpus.shards)
    chosen = np.unique(np.linspace(0, num_shards - 1, min(num_shards, SHARDS_MEASURED)).round())
    tokens = np.array([shard.num_tokens for shard in corpus.shards], dtype=np.int64)
    counts: dict[int, int] = {}
    content = random = documents = one_sentence = 0
    for number in chosen.astype(int).tolist():
        shard = corpus.shards[number]
        rows = draw(shard, corpus, rules, seed, MEASURING_PASS)
        counts[number] = len(rows)
        content += int((rows[:, 1] - rows[:, 0] + rows[:, 3] - rows[:, 2]).sum())
        random += int(rows[:, 4].sum())
        documents += shard.num_documents
        one_sentence += int((shard.documents.all_lengths() == 1).sum())
    total = sum(counts.values())
    quotas = np.rint(tokens * (total / int(tokens[list(counts)].sum()))).astype(np.int64)
    if num_shards <= SHARDS_MEASURED:
        quotas = np.array([counts[number] for number in range(num_shards)], dtype=np.int64)
    return Measure(
        quotas=np.maximum(quotas, 1),
        tokens_per_row=content / total,
        random_share=random / total,
        documents=documents,
        one_sentence_documents=one_sentence,
    )
