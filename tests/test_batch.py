import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.batch import PackedBatch, starts_of
from tests.model.plain import random_packed, random_pretrain_batch

LENGTHS = st.lists(st.integers(1, 20), min_size=1, max_size=12)


@settings(max_examples=50)
@given(LENGTHS)
def test_padded_and_back_is_the_same_batch(lengths):
    packed = random_packed(lengths, 50)
    input_ids, mask, types = packed.to_padded(pad_token_id=7)
    assert input_ids.shape == mask.shape == types.shape == (len(lengths), max(lengths))
    assert (input_ids[mask == 0] == 7).all()
    back = PackedBatch.from_padded(input_ids, mask, types)
    for name in ("token_ids", "segment_ids", "lengths", "keys"):
        assert np.array_equal(getattr(back, name), getattr(packed, name)), name


def test_positions_and_starts_follow_from_the_lengths():
    packed = random_packed([3, 1, 2], 50)
    assert packed.starts.tolist() == [0, 3, 4]
    assert packed.positions.tolist() == [0, 1, 2, 0, 0, 1]
    assert (packed.num_tokens, packed.num_sequences) == (6, 3)
    assert starts_of(np.array([2, 5, 1])).tolist() == [0, 2, 7]
    alone = random_packed([3], 50)
    assert (alone.starts.tolist(), alone.positions.tolist()) == ([0], [0, 1, 2])


@settings(max_examples=50)
@given(LENGTHS, st.data())
def test_split_cuts_nothing_and_loses_nothing(lengths, data):
    batch = random_pretrain_batch(lengths, 50)
    parts = batch.split(data.draw(st.integers(1, len(lengths))))
    assert np.array_equal(
        np.concatenate([part.packed.token_ids for part in parts]), batch.packed.token_ids
    )
    assert np.concatenate([part.packed.keys for part in parts]).tolist() == list(
        range(len(lengths))
    )
    sizes = [part.packed.num_sequences for part in parts]
    assert max(sizes) - min(sizes) <= 1
    offset = 0
    rows = []
    for part in parts:
        rows += (part.target_rows + offset).tolist()
        offset += part.packed.num_tokens
        assert (part.step_targets, part.step_sequences) == (
            batch.step_targets,
            batch.step_sequences,
        )
    assert rows == batch.target_rows.tolist()
    assert np.array_equal(np.concatenate([part.next_labels for part in parts]), batch.next_labels)


def test_more_parts_than_sequences_is_refused():
    with pytest.raises(ValueError, match="cannot cut 2 sequences into 3"):
        random_pretrain_batch([4, 5], 50).split(3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"segment_ids": np.zeros(4)}, "one stream of equal length"),
        ({"keys": np.arange(3)}, "name the same sequences"),
        ({"lengths": np.array([3, 3])}, "sum to the 5 tokens"),
        ({"lengths": np.array([5, 0])}, "must be positive"),
    ],
)
def test_a_batch_that_contradicts_itself_is_refused(changes, message):
    packed = random_packed([2, 3], 50)
    with pytest.raises(ValueError, match=message):
        PackedBatch(**{**vars(packed), **changes})


def test_padding_on_the_left_is_refused():
    with pytest.raises(ValueError, match="ones followed by zeros"):
        PackedBatch.from_padded(np.ones((1, 3), dtype=int), np.array([[0, 1, 1]]))


def test_lists_are_taken_as_arrays():
    packed = PackedBatch.from_padded([[5, 6, 0], [7, 8, 9]], [[1, 1, 0], [1, 1, 1]])
    assert packed.token_ids.tolist() == [5, 6, 7, 8, 9]
    assert packed.lengths.tolist() == [2, 3]


@pytest.mark.parametrize("input_ids", [[5, 6], 5, [[[5], [6]]]])
def test_input_that_is_not_rows_of_tokens_is_refused(input_ids):
    with pytest.raises(ValueError, match=r"input_ids must be \(N, S\), a row a sequence, found"):
        PackedBatch.from_padded(input_ids)
