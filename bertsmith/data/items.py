"""Token ids of texts -> sequences the model reads, and sequences -> packed batches.

For texts that somebody asks about, one by one; pre-training draws its sequences from the corpus
instead (`data.inputs`). What does not fit the model's positions is counted, never dropped silently.
This file knows no characters and no tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bertsmith.batch import IntArray, PackedBatch
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
        segment_ids=np.zeros_like(token_ids),
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


def packs(items: Sequence[Item], num_tokens: int) -> Iterator[tuple[list[int], PackedBatch]]:
    """Packs the items, longest first, into batches of at most `num_tokens` tokens (or one item).

    Yields the items' numbers with each batch. The longest come first so that a batch that does not
    fit the memory shows at once.
    """
    lengths = np.array([len(item.token_ids) for item in items], dtype=np.int64)
    numbers: list[int] = []
    total = 0
    for number in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[number])
        if numbers and total + length > num_tokens:
            yield numbers, _packed(items, numbers)
            numbers, total = [], 0
        numbers.append(number)
        total += length
    if numbers:
        yield numbers, _packed(items, numbers)


def even_packs(
    items: Sequence[Item], num_tokens: int, multiple: int
) -> Iterator[tuple[list[int], PackedBatch]]:
    """As `packs`, but a multiple of `multiple` batches that are nearly equal.

    Or fewer, where one item is more than its share. They are nearly as few as can be, each of at
    most `num_tokens` tokens and at most the longest item more than its share. The larger ones come
    first, so that who takes the next one whenever done ends together with the others. Where one
    item is as long as `num_tokens`, all are packed by `packs`.

    Source: Graham 1969, for the largest first.
    """
    if len(items) == 1:  # what one text alone would wait for
        yield [0], _packed(items, [0])
        return
    lengths = np.array([len(item.token_ids) for item in items], dtype=np.int64)
    total, longest = int(lengths.sum()), int(lengths.max(initial=0))
    if multiple == 1 or longest >= num_tokens or not total:
        yield from packs(items, num_tokens)
        return
    order = np.argsort(-lengths, kind="stable")
    shares = _shares(lengths[order], num_tokens, multiple)
    batches = np.split(order, np.flatnonzero(np.diff(shares)) + 1)
    sizes = [int(lengths[batch].sum()) for batch in batches]
    for place in sorted(range(len(batches)), key=lambda place: -sizes[place]):
        numbers = batches[place].tolist()
        yield numbers, _packed(items, numbers)


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


def _packed(items: Sequence[Item], numbers: Sequence[int]) -> PackedBatch:
    return PackedBatch(
        token_ids=np.concatenate([items[number].token_ids for number in numbers]),
        segment_ids=np.concatenate([items[number].segment_ids for number in numbers]),
        lengths=np.array([len(items[number].token_ids) for number in numbers], dtype=np.int32),
        keys=np.arange(len(numbers), dtype=np.int64),
    )
