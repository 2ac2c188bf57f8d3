"""Token ids of texts -> sequences the model reads, and sequences -> packed batches.

For texts that somebody asks about, one by one; pre-training draws its sequences from the corpus
instead (`data.inputs`). What does not fit the model's positions is counted, never dropped silently.
This file knows no characters and no tensors.

Legend: N items, T tokens of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import overload

import numpy as np

from bertsmith.batch import IntArray, PackedBatch, starts_of
from bertsmith.text.rules import NUM_SPECIAL


@dataclass(frozen=True, kw_only=True)
class Item:
    """One sequence of the model's input."""

    token_ids: IntArray
    """(n,) int32, special tokens included."""
    segment_ids: IntArray
    """(n,) int32: 0 for `[CLS] A [SEP]`, 1 for `B [SEP]`."""
    num_unread: int
    """Tokens of the texts that did not fit."""


class Items(Sequence[Item]):
    """N items end to end: made, counted and packed by few array operations, however many they are.

    An item is an object only while somebody asks for it: what 16,000 objects cost Python's garbage
    collector is more than their tokens.
    """

    def __init__(self, packed: PackedBatch, num_unread: IntArray) -> None:
        """All items as one batch; `num_unread` (N,) of each."""
        self.packed = packed
        self.num_unread = num_unread

    @staticmethod
    def of(items: Iterable[Item]) -> Items:
        """The same, end to end.

        Raises ValueError for an item without tokens, or whose segment ids are not one a token.
        """
        if isinstance(items, Items):
            return items
        found = list(items)
        lengths = np.array([len(each.token_ids) for each in found], np.int32)
        of_segments = np.array([len(each.segment_ids) for each in found], np.int32)
        wrong = np.flatnonzero((lengths < 1) | (lengths != of_segments))
        if len(wrong):
            number = int(wrong[0])
            raise ValueError(
                f"an item needs tokens and as many segment ids: item {number} has "
                f"{lengths[number]} token_ids and {of_segments[number]} segment_ids"
            )
        packed = PackedBatch(
            token_ids=_end_to_end([each.token_ids for each in found]),
            segment_ids=_end_to_end([each.segment_ids for each in found]),
            lengths=lengths,
            keys=np.arange(len(found)),
        )
        return Items(packed, np.array([each.num_unread for each in found], np.int64))

    def __len__(self) -> int:
        """N."""
        return self.packed.num_sequences

    def __iter__(self) -> Iterator[Item]:
        """Each of them, in order."""
        edges = pairwise([*self.packed.starts.tolist(), self.packed.num_tokens])
        for (start, end), num_unread in zip(edges, self.num_unread.tolist(), strict=True):
            yield self._between(start, end, num_unread)

    @overload
    def __getitem__(self, which: int) -> Item: ...

    @overload
    def __getitem__(self, which: slice) -> list[Item]: ...

    def __getitem__(self, which: int | slice) -> Item | list[Item]:
        """One of them, or several. Raises IndexError for a number that none has."""
        if isinstance(which, slice):
            return [self[number] for number in range(len(self))[which]]
        number = range(len(self))[which]
        start, length = int(self.packed.starts[number]), int(self.packed.lengths[number])
        return self._between(start, start + length, int(self.num_unread[number]))

    def batch(self, numbers: IntArray) -> PackedBatch:
        """Some of them, in the order given."""
        lengths = self.packed.lengths[numbers]
        shift = self.packed.starts[numbers] - starts_of(lengths)
        rows = np.repeat(shift, lengths)
        rows += np.arange(len(rows))
        return PackedBatch(
            token_ids=self.packed.token_ids[rows],
            segment_ids=self.packed.segment_ids[rows],
            lengths=lengths,
            keys=np.arange(len(numbers)),
        )

    def _between(self, start: int, end: int, num_unread: int) -> Item:
        """Of the tokens from `start` to before `end` of all."""
        return Item(
            token_ids=self.packed.token_ids[start:end],
            segment_ids=self.packed.segment_ids[start:end],
            num_unread=num_unread,
        )


def beginnings(ids: IntArray, counts: IntArray, *, limit: int, cls_id: int, sep_id: int) -> Items:
    """`[CLS] text [SEP]` of each text, at most `limit` tokens: its beginning.

    The texts' `ids` (T,) lie end to end, `counts` (N,) of each.
    """
    if len(counts) == 1:  # what one text alone would wait for
        only = one_text(ids, limit=limit, cls_id=cls_id, sep_id=sep_id, keep=(0, 0))
        packed = PackedBatch(
            token_ids=only.token_ids,
            segment_ids=only.segment_ids,
            lengths=np.array([len(only.token_ids)], np.int32),
            keys=np.zeros(1, np.int64),
        )
        return Items(packed, np.array([only.num_unread], np.int64))
    kept = np.minimum(counts, limit - NUM_SPECIAL)
    starts = starts_of(counts)
    if (kept < counts).any():
        places = np.arange(len(ids)) - np.repeat(starts, counts)
        ids, starts = ids[places < np.repeat(kept, counts)], starts_of(kept)
    borders = np.stack([starts, starts + kept], axis=1).ravel()
    token_ids = np.insert(ids, borders, np.tile([cls_id, sep_id], len(kept))).astype(np.int32)
    packed = PackedBatch(
        token_ids=token_ids,
        segment_ids=np.zeros_like(token_ids),
        lengths=(kept + NUM_SPECIAL).astype(np.int32),
        keys=np.arange(len(kept)),
    )
    return Items(packed, counts - kept)


def one_text(ids: IntArray, *, limit: int, cls_id: int, sep_id: int, keep: tuple[int, int]) -> Item:
    """`[CLS] text [SEP]`, at most `limit` tokens of it, cut around the tokens `keep` (half-open).

    The cut leaves as many tokens before `keep` as after it, where the text has them. Raises
    ValueError when `keep` alone is too long.
    """
    start, end = around(keep, len(ids), limit - NUM_SPECIAL)
    token_ids = np.empty(end - start + NUM_SPECIAL, np.int32)
    token_ids[0], token_ids[1:-1], token_ids[-1] = cls_id, ids[start:end], sep_id
    return Item(
        token_ids=token_ids,
        segment_ids=np.zeros(len(token_ids), np.int32),
        num_unread=len(ids) - (end - start),
    )


def around(keep: tuple[int, int], num_tokens: int, capacity: int) -> tuple[int, int]:
    """The `capacity` tokens of a text, or all of fewer, in whose middle `keep` lies (half-open).

    Raises ValueError when `keep` alone is too long.
    """
    keep_start, keep_end = keep
    kept = keep_end - keep_start
    if kept > capacity:
        raise ValueError(f"{kept} tokens must be read together, but the model reads {capacity}")
    start = max(0, min(keep_start - (capacity - kept) // 2, num_tokens - capacity))
    return start, min(num_tokens, start + capacity)


def two_texts(first: IntArray, second: IntArray, *, limit: int, cls_id: int, sep_id: int) -> Item:
    """`[CLS] first [SEP] second [SEP]`, at most `limit` tokens, the longer side trimmed at its end.

    Equal lengths trim the second text first, as in pre-training.
    """
    capacity = limit - 3
    first_kept = min(len(first), max(capacity - capacity // 2, capacity - len(second)))
    second_kept = min(len(second), capacity - first_kept)
    token_ids = np.concatenate(
        [[cls_id], first[:first_kept], [sep_id], second[:second_kept], [sep_id]]
    ).astype(np.int32)
    segment_ids = np.repeat(np.array([0, 1], dtype=np.int32), [first_kept + 2, second_kept + 1])
    unread = len(first) + len(second) - first_kept - second_kept
    return Item(token_ids=token_ids, segment_ids=segment_ids, num_unread=unread)


def packs(items: Iterable[Item], num_tokens: int) -> Iterator[tuple[list[int], PackedBatch]]:
    """Packs the items, longest first, into batches of at most `num_tokens` tokens (or one item).

    Yields the items' numbers with each batch. The longest come first so that a batch that does not
    fit the memory shows at once.
    """
    items = Items.of(items)
    order = _longest_first(items)
    ends = np.cumsum(items.packed.lengths[order], dtype=np.int64)
    start, before = 0, 0
    while start < len(order):
        end = max(start + 1, int(np.searchsorted(ends, before + num_tokens, side="right")))
        yield order[start:end].tolist(), items.batch(order[start:end])
        start, before = end, int(ends[end - 1])


def even_packs(
    items: Iterable[Item], num_tokens: int, multiple: int
) -> Iterator[tuple[list[int], PackedBatch]]:
    """As `packs`, but a multiple of `multiple` batches that are nearly equal.

    Or fewer, where one item is more than its share. They are nearly as few as can be, each of at
    most `num_tokens` tokens and at most the longest item more than its share. The larger ones come
    first, so that who takes the next one whenever done ends together with the others. Where one
    item is as long as `num_tokens`, all are packed by `packs`.

    Source: Graham 1969, for the largest first.
    """
    items = Items.of(items)
    if len(items) == 1:  # what one text alone would wait for
        yield [0], items.packed
        return
    lengths = items.packed.lengths.astype(np.int64)
    total, longest = items.packed.num_tokens, int(lengths.max(initial=0))
    if multiple == 1 or longest >= num_tokens or not total:
        yield from packs(items, num_tokens)
        return
    order = _longest_first(items)
    shares = _shares(lengths[order], num_tokens, multiple)
    batches = np.split(order, np.flatnonzero(np.diff(shares)) + 1)
    sizes = [int(lengths[batch].sum()) for batch in batches]
    for place in sorted(range(len(batches)), key=lambda place: -sizes[place]):
        yield batches[place].tolist(), items.batch(batches[place])


def _end_to_end(arrays: Sequence[IntArray]) -> IntArray:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int32)


def _longest_first(items: Items) -> IntArray:
    """(N,) the items' numbers; of equally long ones the first comes first."""
    return np.argsort(-items.packed.lengths, kind="stable")


def _shares(lengths: IntArray, num_tokens: int, multiple: int) -> IntArray:
    """Which share each item belongs to, by its middle: of the fewest tried that all fit.

    Tries `multiple` shares more at a time, and of more than 200 times that a hundredth more. A
    share holds less than its part of all tokens and the longest item, so `most` rounds fit for
    sure.
    """
    total, longest = int(lengths.sum()), int(lengths.max())
    middles = 2 * np.cumsum(lengths) - lengths  # doubled, to stay whole
    fewest, most = (-(-total // (multiple * room)) for room in (num_tokens, num_tokens - longest))
    rounds = fewest
    while True:
        shares: IntArray = middles * (rounds * multiple) // (2 * total)
        if rounds >= most or np.bincount(shares, weights=lengths).max() <= num_tokens:
            return shares
        rounds = min(most, max(rounds + 1, rounds * 101 // 100))
