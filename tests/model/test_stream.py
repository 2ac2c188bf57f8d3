import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.model.stream import MAX_BLOCK_WASTE, Stream
from tests.model.plain import random_packed


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=40))
def test_every_row_has_one_cell_and_blocks_are_nearly_full(lengths):
    stream = Stream.of(random_packed(lengths, 50))
    cells = torch.cat([block.rows for block in stream.blocks])
    assert torch.equal(cells[stream.cell_rows], torch.arange(sum(lengths)))
    assert sum(len(block.lengths) for block in stream.blocks) == len(lengths)
    for block in stream.blocks:
        assert block.rows.numel() == len(block.lengths) * block.width
        assert block.rows.numel() <= MAX_BLOCK_WASTE * block.lengths.sum().item()


def test_positions_starts_and_ends_follow_from_the_lengths():
    stream = Stream.of(random_packed([3, 1, 2], 50))
    assert stream.positions.tolist() == [0, 1, 2, 0, 0, 1]
    assert stream.first_rows.tolist() == [0, 3, 4]
    assert stream.last_rows.tolist() == [2, 3, 5]


@pytest.mark.parametrize(("lengths", "expected"), [([4, 4, 4], True), ([4, 4, 3], False)])
def test_equal_lengths_are_one_rectangle(lengths, expected):
    stream = Stream.of(random_packed(lengths, 50))
    assert stream.is_one_rectangle is expected
    if expected:
        assert np.array_equal(stream.blocks[0].rows.numpy(), np.arange(12))
