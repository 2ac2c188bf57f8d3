import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.data import items
from bertsmith.data.items import Item, Items, beginnings, even_packs, one_text, packs, two_texts

CLS, SEP = 101, 102


def read(num_tokens, keep, limit=8):
    return one_text(np.arange(num_tokens), limit=limit, cls_id=CLS, sep_id=SEP, keep=keep)


def test_a_text_that_fits_is_read_whole():
    item = read(6, (2, 3))
    assert item.token_ids.tolist() == [CLS, 0, 1, 2, 3, 4, 5, SEP]
    assert item.segment_ids.tolist() == [0] * 8
    assert item.num_unread == 0


def test_a_long_text_is_cut_around_what_must_be_kept():
    assert read(50, (20, 22)).token_ids.tolist() == [CLS, 18, 19, 20, 21, 22, 23, SEP]
    assert read(50, (0, 1)).token_ids.tolist() == [CLS, 0, 1, 2, 3, 4, 5, SEP]
    assert read(50, (49, 50)).token_ids.tolist() == [CLS, 44, 45, 46, 47, 48, 49, SEP]
    assert read(50, (20, 22)).num_unread == 44


def test_what_must_be_kept_together_must_fit():
    assert read(50, (20, 26)).token_ids[1:-1].tolist() == list(range(20, 26))
    with pytest.raises(ValueError, match="7 tokens must be read together, but the model reads 6"):
        read(50, (20, 27))


@given(counts=st.lists(st.integers(0, 9), max_size=8), limit=st.integers(3, 12))
def test_beginnings_of_many_texts_are_those_of_each_alone(counts, limit):
    counts = np.array(counts, np.int64)
    ids = np.arange(counts.sum(), dtype=np.uint32)
    found = beginnings(ids, counts, limit=limit, cls_id=CLS, sep_id=SEP)
    ends = np.cumsum(counts)
    alone = [
        one_text(ids[end - count : end], limit=limit, cls_id=CLS, sep_id=SEP, keep=(0, 0))
        for end, count in zip(ends, counts, strict=True)
    ]
    assert len(found) == len(alone)
    assert [of_values(item) for item in found] == [of_values(item) for item in alone]
    assert found.packed.token_ids.dtype == found.packed.segment_ids.dtype == np.int32


def of_values(item):
    return item.token_ids.tolist(), item.segment_ids.tolist(), item.num_unread


def test_items_end_to_end_are_the_same_ones_and_any_of_them_make_a_batch():
    alone = [
        two_texts(np.arange(n), np.arange(2 * n), limit=9, cls_id=CLS, sep_id=SEP)
        for n in (1, 5, 3)
    ]
    items = Items.of(alone)
    assert [of_values(item) for item in items] == [of_values(item) for item in alone]
    assert Items.of(items) is items
    batch = items.batch(np.array([2, 0]))
    assert batch.token_ids.tolist() == [*alone[2].token_ids, *alone[0].token_ids]
    assert batch.segment_ids.tolist() == [*alone[2].segment_ids, *alone[0].segment_ids]
    assert batch.lengths.tolist() == [9, 6]
    assert batch.keys.tolist() == [0, 1]
    assert len(Items.of([])) == 0
    assert list(Items.of([])) == []


def test_items_index_and_slice_like_a_list():
    alone = [
        one_text(np.arange(n), limit=9, cls_id=CLS, sep_id=SEP, keep=(0, 0)) for n in (1, 5, 3)
    ]
    items = Items.of(alone)
    for number in (0, 2, -1, -3):
        assert of_values(items[number]) == of_values(alone[number])
    for some in (slice(1, None), slice(None, None, -2), slice(5, 7)):
        assert list(map(of_values, items[some])) == list(map(of_values, alone[some]))
    for number in (3, -4):
        with pytest.raises(IndexError):
            items[number]


@pytest.mark.parametrize("lengths", [(3, 5), (0, 0)])
def test_an_item_without_tokens_or_with_more_or_fewer_segment_ids_is_refused(lengths):
    """Two whose lengths make up for each other would be read with each other's segments."""
    num_tokens, num_segments = lengths
    items = [
        Item(token_ids=np.zeros(n, np.int32), segment_ids=np.zeros(m, np.int32), num_unread=0)
        for n, m in ((2, 2), (num_tokens, num_segments), (5, 3))
    ]
    message = f"item 1 has {num_tokens} token_ids and {num_segments} segment_ids"
    with pytest.raises(ValueError, match=message):
        Items.of(items)


@given(first=st.integers(1, 40), second=st.integers(1, 40), limit=st.integers(5, 40))
def test_a_pair_is_trimmed_like_one_token_at_a_time_from_the_longer_side(first, second, limit):
    left, right = first, second
    while left + right > limit - 3:
        if left > right:
            left -= 1
        else:
            right -= 1
    item = two_texts(
        np.arange(first), np.arange(1000, 1000 + second), limit=limit, cls_id=CLS, sep_id=SEP
    )
    a, b = list(range(left)), list(range(1000, 1000 + right))
    assert item.token_ids.tolist() == [CLS, *a, SEP, *b, SEP]
    assert item.segment_ids.tolist() == [0] * (left + 2) + [1] * (right + 1)
    assert item.num_unread == first + second - left - right


@given(lengths=st.lists(st.integers(1, 30), max_size=40), budget=st.integers(1, 60))
def test_packs_hold_every_item_once_within_the_budget_longest_first(lengths, budget):
    items = [
        Item(
            token_ids=np.full(length, number, dtype=np.int32),
            segment_ids=np.zeros(length, dtype=np.int32),
            num_unread=0,
        )
        for number, length in enumerate(lengths)
    ]
    seen = []
    for numbers, packed in packs(items, budget):
        assert packed.num_tokens <= budget or len(numbers) == 1
        assert packed.lengths.tolist() == [lengths[number] for number in numbers]
        assert packed.token_ids.tolist() == [n for n in numbers for _ in range(lengths[n])]
        seen += numbers
    assert sorted(seen) == list(range(len(lengths)))
    assert [lengths[number] for number in seen] == sorted(lengths, reverse=True)


@given(
    lengths=st.lists(st.integers(1, 60), max_size=80),
    limit=st.integers(61, 300),
    multiple=st.integers(2, 16),
)
def test_even_batches_hold_every_item_once_and_nearly_equal_shares(lengths, limit, multiple):
    items = [
        Item(token_ids=np.full(length, number), segment_ids=np.zeros(length), num_unread=0)
        for number, length in enumerate(lengths)
    ]
    batches = list(even_packs(items, limit, multiple))
    assert sorted(number for numbers, _ in batches for number in numbers) == list(range(len(items)))
    for numbers, packed in batches:
        assert packed.lengths.tolist() == [lengths[number] for number in numbers]
        assert packed.num_tokens <= limit
    sizes = [packed.num_tokens for _, packed in batches]
    assert sizes == sorted(sizes, reverse=True)
    total, longest = sum(lengths), max(lengths, default=0)
    enough = multiple * -(-total // (multiple * (limit - longest)))
    assert len(batches) <= enough
    if total / max(enough, 1) >= longest:
        assert len(batches) % multiple == 0  # one for every thread, or as many more
    assert all(size <= total / len(batches) + longest for size in sizes)
    for fewer in range(multiple, len(batches) - multiple + 1, multiple):
        assert largest_share(sorted(lengths, reverse=True), fewer) > limit


def largest_share(lengths, num_batches):
    """Of tokens, where each item goes to the share that its middle lies in."""
    tokens, before = [0] * num_batches, 0
    for length in lengths:
        tokens[(2 * before + length) * num_batches // (2 * sum(lengths))] += length
        before += length
    return max(tokens)


def test_how_many_batches_many_items_make_is_found_in_few_tries(monkeypatch):
    tries, bincount = [], np.bincount
    monkeypatch.setattr(np, "bincount", lambda *a, **k: tries.append(1) or bincount(*a, **k))
    lengths = np.random.default_rng(0).integers(12, 512, 50_000)
    shares = items._shares(-np.sort(-lengths), 2048, 2)
    assert len(tries) < 100
    assert bincount(shares, weights=-np.sort(-lengths)).max() <= 2048
    assert shares.max() < 1.35 * lengths.sum() / 2048


@given(num_items=st.integers(1, 200), threads=st.integers(2, 8))
def test_who_takes_the_next_batch_whenever_done_ends_with_the_others(num_items, threads):
    """Of equal items nobody reads more than one above another, and no batch is left unfilled."""
    batches = list(even_packs(equal_items(num_items, 128), 1024, threads))
    read = [0] * threads
    for numbers, _ in batches:
        read[read.index(min(read))] += len(numbers)
    assert max(read) - min(read) <= 1
    assert len(batches) == min(num_items, threads * -(-num_items // (threads * 8)))


def test_batches_are_filled_to_the_limit_where_that_makes_fewer():
    batches = list(even_packs(equal_items(64, 128), 2048, 2))
    assert [packed.num_tokens for _, packed in batches] == [2048] * 4


def equal_items(num_items, length):
    tokens = np.zeros(length)
    return [Item(token_ids=tokens, segment_ids=tokens, num_unread=0) for _ in range(num_items)]


def test_one_long_item_and_many_short_ones_are_shared_out_evenly():
    lengths = [512] + [10] * 56
    items = [
        Item(token_ids=np.zeros(length), segment_ids=np.zeros(length), num_unread=0)
        for length in lengths
    ]
    assert [packed.num_tokens for _, packed in even_packs(items, 2048, 2)] == [540, 532]
