from dataclasses import replace

import numpy as np
import pytest

from benchmarks.batches import Shape, batches_of, over_vocabulary, synthetic, training_flops
from bertsmith.model.config import TINY, sized
from tests.benchmarks.small import small_corpus

CONFIG = replace(sized(3, 8, 2), vocab_size=1100)


def test_drawn_sequences_are_full_and_follow_from_the_number():
    draw = batches_of(CONFIG, Shape(num_sequences=3, length=20))
    first, again, second = draw(0), draw(0), draw(1)
    assert first.packed.lengths.tolist() == [20, 20, 20]
    assert len(first.target_rows) == first.step_targets == 9
    np.testing.assert_array_equal(first.packed.token_ids, again.packed.token_ids)
    assert (first.packed.token_ids != second.packed.token_ids).any()
    assert first.packed.token_ids.max() < CONFIG.vocab_size


def test_a_corpus_gives_its_own_sequences_and_vocabulary(tmp_path):
    corpus = small_corpus(tmp_path / "corpus")
    config = over_vocabulary(TINY, corpus)
    batch = batches_of(config, Shape(num_sequences=4, length=16, corpus=corpus))(0)
    assert batch.packed.num_sequences == 4
    assert batch.packed.lengths.max() <= 16
    assert batch.packed.token_ids.max() < config.vocab_size < TINY.vocab_size
    assert over_vocabulary(TINY, None) == TINY


def test_operations_are_those_of_the_matrices_three_times():
    hidden, inner, vocabulary, layers = 8, 32, 1100, 3
    lengths = [20, 10]
    tokens = 30
    projections, feed_forward = 4 * 2 * hidden**2, 2 * 2 * hidden * inner
    attention = sum(2 * 2 * length * length * hidden for length in lengths)
    predicted = 0.15 * tokens
    read = predicted + len(lengths)  # rows that go through all of the last layer
    last_linear = tokens * 3 * 2 * hidden**2 + read * (2 * hidden**2 + feed_forward)
    forward = (
        (layers - 1) * tokens * (projections + feed_forward)
        + last_linear
        + layers * attention
        + predicted * (2 * hidden**2 + 2 * hidden * vocabulary)
    )
    assert training_flops(CONFIG, lengths) == pytest.approx(3 * forward)


def test_one_long_sequence_needs_more_than_two_short_ones():
    assert training_flops(CONFIG, [40]) > training_flops(CONFIG, [20, 20])


def test_masked_tokens_stand_at_the_target_rows():
    batch = synthetic(CONFIG, 20, 2, 0)
    assert (batch.packed.token_ids[batch.target_rows] == 103).all()
