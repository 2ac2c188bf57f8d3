import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.randomness import (
    Stream,
    dropout_row_keys,
    hash64,
    integers,
    mix32,
    permutation,
    uniform,
)


def test_the_hashes_are_pinned_forever():
    # A change here would change every run ever made.
    assert int(hash64(1, 2, 3)) == 15020427595393229491
    assert [int(word) for word in mix32(np.array([0, 1, 2**32 - 1], dtype=np.uint32))] == [
        0,
        1753845952,
        1734902346,
    ]


def test_order_and_number_of_counters_matter():
    draws = {int(hash64(1, 2)), int(hash64(2, 1)), int(hash64(1)), int(hash64(1, 2, 0))}
    assert len(draws) == 4


def test_counters_broadcast_and_negative_ones_are_counters_too():
    rows = np.arange(-3, 4)
    table = hash64(5, Stream.MASKS, rows[:, None], np.arange(4))
    assert table.shape == (7, 4)
    assert len(np.unique(table)) == 28
    assert int(table[2, 3]) == int(hash64(5, Stream.MASKS, -1, 3))


NUMBERS = st.integers(-(2**63), 2**64 - 1)


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=4), last=NUMBERS)
def test_numbers_are_mixed_like_arrays_of_them(numbers, last):
    arrays = [np.array([each % 2**64], np.uint64).view(np.int64) for each in (*numbers, last)]
    assert hash64(*numbers, last) == hash64(*arrays)
    assert hash64(*numbers, arrays[-1]) == hash64(*arrays)
    assert hash64(arrays[0], *numbers[1:], last) == hash64(*arrays)


@pytest.mark.parametrize("number", [-(2**63) - 1, 2**64])
def test_a_counter_of_more_than_64_bits_is_refused(number):
    with pytest.raises(OverflowError):
        hash64(1, number)


def test_uniform_draws_are_uniform_and_uncorrelated():
    draws = uniform(3, Stream.PAIRS, np.arange(1_000_000))
    assert 0.0 <= draws.min() < 1e-5
    assert 1 - 1e-5 < draws.max() < 1.0
    counts = np.histogram(draws, bins=100, range=(0, 1))[0]
    # Chi-square with 99 degrees of freedom: mean 99, deviation 14.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 99 + 5 * 14
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 5e-3


@pytest.mark.parametrize("high", [1, 2, 7, 30_522])
def test_integers_fill_their_range_evenly(high):
    draws = integers(high, 1, 2, np.arange(200_000))
    assert draws.min() == 0
    assert draws.max() == high - 1
    mean, deviation = (high - 1) / 2, np.sqrt((high**2 - 1) / 12 / 200_000)
    assert abs(draws.mean() - mean) <= 5 * deviation


def test_a_permutation_holds_every_place_once_and_depends_on_its_counters():
    first, second = permutation(1000, 1, 2), permutation(1000, 1, 3)
    assert sorted(first.tolist()) == list(range(1000))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, permutation(1000, 1, 2))
    assert abs(np.corrcoef(first, np.arange(1000))[0, 1]) < 0.16


def test_dropout_keys_follow_sequence_and_position_not_the_row():
    keys = dropout_row_keys(1, 9, np.array([4, 4, 7]), np.array([0, 1, 0]))
    swapped = dropout_row_keys(1, 9, np.array([7, 4, 4]), np.array([0, 0, 1]))
    assert keys.dtype == np.int32
    assert swapped.tolist() == [keys[2], keys[0], keys[1]]
    assert len(set(keys.tolist()) | set(dropout_row_keys(1, 10, np.array([4]), np.array([0])))) == 4


def test_no_counter_is_refused():
    with pytest.raises(ValueError, match="at least one counter"):
        hash64()
