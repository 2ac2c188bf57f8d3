"""Chains of symbols -> the texts of the pairs joined, best pair first.

The outcome depends on the counts alone: sums of integers, and ties decided by the pair's text.
It does not know alphabets, vocabularies or files.

Source: byte-pair merges as in Sennrich et al. 2016; the likelihood score after Schuster and
Nakajima 2012. Both by our own incremental bookkeeping.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Protocol

import numpy as np

from bertsmith.text.chains import Int64Array, Join, SymbolChains, pair_numbers
from bertsmith.text.config import Score


def joined_texts(chains: SymbolChains, score: Score, min_pair_count: int) -> Iterator[str]:
    """Joins pair after pair, best first, and yields each joined text, whether new or not.

    `frequency` takes the most frequent pair, `likelihood` the highest count / (left count * right
    count); of equals the smaller by text. Ends when no pair occurs `min_pair_count` times.
    """
    chooser: _Chooser
    if score == "frequency":
        chooser = _MostFrequent(chains, max(1, min_pair_count))
    else:
        chooser = _MostLikely(chains, max(1, min_pair_count))
    while (key := chooser.best()) is not None:
        join = chains.join(key)
        chooser.follow(key, join)
        yield chains.texts[join.number]


class _Chooser(Protocol):
    """Knows the best pair, and follows the joins."""

    def best(self) -> int | None: ...
    def follow(self, key: int, join: Join) -> None: ...


class _MostFrequent:
    """A heap of pairs whose entries may be out of date, checked when they come up.

    Only pairs above a floor are in the heap; the floor sinks when the heap runs dry. So the long
    tail of rare pairs costs an entry in a dict, and never one in the heap.
    """

    def __init__(self, chains: SymbolChains, min_pair_count: int) -> None:
        keys, counts = chains.pair_counts()
        self._chains = chains
        self._min = min_pair_count
        self._counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        self._floor = max(self._counts.values(), default=0) + 1
        self._heap: list[tuple[int, tuple[str, str], int]] = []

    def best(self) -> int | None:
        while self._heap or self._lower_floor():
            negative, _, key = heapq.heappop(self._heap)
            count = self._counts.get(key, 0)
            if count == -negative:
                return key
            # A raised count has an entry of its own; a lowered one must go back.
            if self._floor <= count < -negative:
                self._push(key, count)
        return None

    def follow(self, key: int, join: Join) -> None:
        counts = self._counts
        for pair, change in zip(join.keys.tolist(), join.changes.tolist(), strict=True):
            count = counts.get(pair, 0) + change
            if count == 0:
                counts.pop(pair, None)
                continue
            counts[pair] = count
            if change > 0 and count >= self._floor:
                self._push(pair, count)

    def _push(self, key: int, count: int) -> None:
        heapq.heappush(self._heap, (-count, self._chains.pair_texts(key), key))

    def _lower_floor(self) -> bool:
        highest = max(self._counts.values(), default=0)
        if highest < self._min:
            return False
        self._floor = max(self._min, highest // 2)
        texts = self._chains.pair_texts
        self._heap = [(-n, texts(key), key) for key, n in self._counts.items() if n >= self._floor]
        heapq.heapify(self._heap)
        return True


class _MostLikely:
    """All candidates as arrays, scored anew at every step.

    A join lowers the counts of its two parts, and so changes the score of pairs it never touched:
    no heap can follow that.
    """

    def __init__(self, chains: SymbolChains, min_pair_count: int) -> None:
        keys, counts = chains.pair_counts()
        self._chains = chains
        self._min = min_pair_count
        self._symbol_counts = chains.symbol_counts().astype(np.float64)
        self._counts = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        self._gather()

    def best(self) -> int | None:
        size = len(self._rows)
        if not size:
            return None
        left, right = self._parts[:, :size]
        counts = self._row_counts[:size]
        with np.errstate(invalid="ignore"):  # 0 / 0 where a symbol has died out
            scores = counts / self._symbol_counts[left] / self._symbol_counts[right]
        scores[counts < self._min] = -1.0
        highest = scores.max()
        if highest < 0.0:
            return None
        equals = (int(self._keys[row]) for row in np.flatnonzero(scores == highest))
        return min(equals, key=self._chains.pair_texts)

    def follow(self, key: int, join: Join) -> None:
        self._count_symbols(key, join)
        for pair, change in zip(join.keys.tolist(), join.changes.tolist(), strict=True):
            count = self._counts.get(pair, 0) + change
            if count:
                self._counts[pair] = count
            else:
                self._counts.pop(pair, None)
            row = self._rows.get(pair)
            if row is not None:
                self._row_counts[row] = count
            elif count >= self._min:
                self._add_row(pair, count)

    def _count_symbols(self, key: int, join: Join) -> None:
        if join.number >= len(self._symbol_counts):
            room = np.zeros(len(self._symbol_counts) + 1024)
            self._symbol_counts = np.concatenate([self._symbol_counts, room])
        self._symbol_counts[join.number] += join.times
        for part in pair_numbers(key):
            self._symbol_counts[part] -= join.times

    def _add_row(self, key: int, count: int) -> None:
        if len(self._rows) == len(self._keys):
            self._gather()
            return
        row = self._rows[key] = len(self._rows)
        self._keys[row] = key
        self._parts[:, row] = pair_numbers(key)
        self._row_counts[row] = count

    def _gather(self) -> None:
        """Lays the living candidates out afresh, with room to grow."""
        living = [(key, n) for key, n in self._counts.items() if n >= self._min]
        room = len(living) + len(living) // 4 + 1024
        self._rows = {key: row for row, (key, _) in enumerate(living)}
        self._keys: Int64Array = np.zeros(room, dtype=np.int64)
        self._keys[: len(living)] = [key for key, _ in living]
        self._row_counts: Int64Array = np.zeros(room, dtype=np.int64)
        self._row_counts[: len(living)] = [count for _, count in living]
        self._parts: Int64Array = np.stack([self._keys >> 32, self._keys & 0xFFFFFFFF])  # (2, room)
