import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bertsmith.model.blocks import (
    MAX_BLOCK_WASTE,
    MAX_BLOCK_WASTED_SCORES,
    MAX_SMALL_BLOCK_WASTE,
)
from bertsmith.model.stream import Stream, builds_kernels_by_size, rounded
from tests.model.plain import random_packed


@settings(max_examples=60)
@given(st.lists(st.integers(1, 90), min_size=1, max_size=40))
@example([10] + [1] * 90)
@example([20] * 12 + [12] * 20)
@example([7] * 5)
def test_every_row_has_one_cell_and_blocks_are_nearly_full_or_small(lengths):
    stream = Stream.of(random_packed(lengths, 50))
    cells = torch.cat([block.rows for block in stream.blocks])
    assert torch.equal(cells[stream.cell_rows], torch.arange(sum(lengths)))
    assert sum(len(block.lengths) for block in stream.blocks) == len(lengths)
    are_equal = len(set(lengths)) == 1
    starts = [block.start for block in stream.blocks]
    assert starts == ([0] if are_equal else [None] * len(starts))
    for block in stream.blocks:
        assert block.rows.numel() == len(block.lengths) * block.width
        waste = block.rows.numel() / block.lengths.sum().item()
        scores = block.rows.numel() * block.width - block.lengths.square().sum().item()
        is_small = scores <= MAX_BLOCK_WASTED_SCORES
        if block.start is not None:
            assert torch.equal(block.rows, block.start + torch.arange(len(block.rows)))
            assert (block.lengths == block.width).all()
        assert waste <= (MAX_SMALL_BLOCK_WASTE if is_small else MAX_BLOCK_WASTE)


@given(st.lists(st.integers(1, 90), min_size=1, max_size=40))
def test_spare_rows_fill_a_stream_up_and_read_the_last_cell(lengths):
    packed = random_packed(lengths, 50)
    plain = Stream.of(packed, dropout=(1, 2))
    stream = Stream.of(packed, dropout=(1, 2), is_rounded=True)
    count = sum(lengths)
    assert stream.num_tokens == plain.num_tokens == count
    for name in ("token_ids", "segment_ids", "positions", "cell_rows", "row_keys"):
        assert len(getattr(stream, name)) == rounded(count)
        assert torch.equal(getattr(stream, name)[:count], getattr(plain, name))
    assert torch.equal(stream.token_keys, plain.row_keys)
    assert stream.has_spare_rows is (rounded(count) > count)
    assert stream.num_cells == plain.num_cells + stream.has_spare_rows
    assert (stream.cell_rows[count:] == plain.num_cells).all()
    assert [b.rows.tolist() for b in stream.blocks] == [b.rows.tolist() for b in plain.blocks]


def test_small_sequences_of_unlike_lengths_are_one_block_and_large_ones_are_not():
    assert len(Stream.of(random_packed([20] * 12 + [12] * 20, 50)).blocks) == 1
    assert len(Stream.of(random_packed([80] * 12 + [48] * 20, 50)).blocks) == 2


def test_round_numbers_are_few_and_near():
    numbers = range(1, 5000)
    assert all(number <= rounded(number) <= 1.0625 * number for number in numbers)
    assert [rounded(number) for number in (1, 31, 33, 350, 1700)] == [1, 31, 34, 352, 1728]
    assert len({rounded(number) for number in range(1024, 2048)}) == 17


@pytest.mark.parametrize(("dtype", "expected"), [(torch.bfloat16, True), (torch.float32, False)])
def test_sizes_are_rounded_where_kernels_are_built_for_them(dtype, expected):
    assert builds_kernels_by_size(torch.zeros(1, dtype=dtype)) is expected
    assert builds_kernels_by_size(torch.zeros(1, dtype=dtype, device="meta")) is False


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
