from dataclasses import replace

import numpy as np
import pytest
import torch

from bertsmith import randomness
from bertsmith.batch import PackedBatch
from bertsmith.fusion import fused, unfused
from bertsmith.model.bert import Bert
from bertsmith.model.config import sized
from bertsmith.model.dropout import (
    COLUMN_MULTIPLIER,
    HEAD_BITS,
    dropped,
    keep_factors,
    keep_mask,
    mix32,
    site_words,
)
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from tests.model.draws import PROBABILITIES, words_at_the_bound
from tests.model.plain import random_packed

CONFIG = replace(sized(2, 32, 4), vocab_size=60, max_position_embeddings=64)


def test_the_torch_hash_equals_its_numpy_twin_to_the_bit():
    words = np.arange(-(2**31), 2**31, 1_000_003, dtype=np.int64).astype(np.int32)
    ours = mix32(torch.from_numpy(words)).numpy()
    assert np.array_equal(ours, randomness.mix32(words.view(np.uint32)).view(np.int32))


@pytest.mark.parametrize("is_plain", [True, pytest.param(False, marks=pytest.mark.compiled)])
@pytest.mark.parametrize("probability", [0.0, *PROBABILITIES])
def test_what_is_kept_are_the_draws_that_reach_the_bar(probability, is_plain):
    """At the bound too, and with columns: of the whole hash's upper 31 bits, in numpy."""
    words = torch.cat([words_at_the_bound(probability), torch.arange(500, dtype=torch.int32)])
    columns = torch.tensor([*range(70), *(3 << HEAD_BITS | key for key in range(70))]).int()
    mixed = words.numpy().view(np.uint32)[:, None] ^ (
        columns.numpy().view(np.uint32) * np.uint32(COLUMN_MULTIPLIER)
    )
    expected = randomness.mix32(mixed) >> np.uint32(1) >= np.uint32(int(probability * 2**31))
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        with unfused(is_plain):
            found = fused(keep_mask)(words[:, None], columns, probability, dtype)
        assert found.dtype == dtype
        assert np.array_equal(found.float().numpy(), expected)
    factors = keep_factors(words[:, None], columns, probability, torch.float64).numpy()
    assert np.array_equal(factors, expected / (1.0 - probability))


def test_masks_keep_their_rate_in_every_row_and_column():
    words = site_words(torch.arange(2000, dtype=torch.int32), 1, 2)
    columns = torch.arange(1000, dtype=torch.int32)
    kept = keep_factors(words[:, None], columns, 0.1, torch.float64) > 0
    # Five standard deviations of 2,000,000, 1,000 and 2,000 draws.
    assert abs(kept.double().mean().item() - 0.9) < 5 * 0.3 / 2_000_000**0.5
    assert (kept.double().mean(1) - 0.9).abs().max() < 5 * 0.3 / 1000**0.5
    assert (kept.double().mean(0) - 0.9).abs().max() < 5 * 0.3 / 2000**0.5


def test_masks_of_different_sites_layers_and_steps_are_independent():
    packed = random_packed([50] * 20, 60)

    def mask(step: int, layer: int, site: int) -> torch.Tensor:
        stream = Stream.of(packed, dropout=(1, step))
        return dropped(torch.ones(1000, 64), site_words(stream.row_keys, layer, site), 0.5)

    masks = [mask(1, 0, 0), mask(2, 0, 0), mask(1, 1, 0), mask(1, 0, 1), mask(1, 0, 2)]
    flat = torch.stack(masks).view(5, -1) - 1.0
    correlation = torch.corrcoef(flat) - torch.eye(5)
    assert correlation.abs().max() < 5 / 64_000**0.5


def test_dropped_elements_are_zero_and_kept_ones_are_scaled():
    rows = dropped(torch.ones(100, 50), site_words(torch.arange(100).int(), 0, 1), 0.25)
    assert rows.unique().tolist() == [0.0, pytest.approx(1 / 0.75)]


def test_no_words_or_no_probability_is_the_identity():
    rows = torch.randn(4, 8)
    assert dropped(rows, None, 0.5) is rows
    assert dropped(rows, torch.zeros(4, dtype=torch.int32), 0.0) is rows


def test_dropout_does_not_depend_on_how_a_batch_is_packed():
    bert = Bert(CONFIG)
    initialise(bert, std=0.2, seed=3)
    bert.double()
    packed = random_packed([5, 30, 17, 17, 40], CONFIG.vocab_size)
    whole = bert(Stream.of(packed, dropout=(9, 4)))

    for order in ([4, 2], [1], [3, 0]):
        pieces = [slice(packed.starts[i], packed.starts[i] + packed.lengths[i]) for i in order]
        part = PackedBatch(
            token_ids=np.concatenate([packed.token_ids[piece] for piece in pieces]),
            segment_ids=np.concatenate([packed.segment_ids[piece] for piece in pieces]),
            lengths=packed.lengths[order],
            keys=packed.keys[order],
        )
        hidden = bert(Stream.of(part, dropout=(9, 4)))
        expected = torch.cat([whole[piece] for piece in pieces])
        torch.testing.assert_close(hidden, expected, rtol=1e-11, atol=1e-11)
