from dataclasses import replace

import numpy as np
import pytest

from benchmarks.loss_curves import SHORTEST, Trial, mixed, without_dropout
from benchmarks.systems import padded
from bertsmith.model.config import sized

TRIAL = Trial(
    model=replace(sized(1, 8, 1), vocab_size=50),
    dtype="float64",
    steps=3,
    batch_size=40,
    learning_rate=1e-3,
    sequence_length=24,
)


def test_drawn_batches_mix_lengths_repeat_and_differ_between_steps():
    first, again, second = mixed(TRIAL, 0), mixed(TRIAL, 0), mixed(TRIAL, 1)
    lengths = first.packed.lengths
    assert lengths.min() >= SHORTEST
    assert lengths.max() <= 24
    assert len(np.unique(lengths)) > 5
    np.testing.assert_array_equal(first.packed.token_ids, again.packed.token_ids)
    assert first.packed.num_tokens != second.packed.num_tokens


def test_drawn_sequences_have_two_segments_one_after_the_other():
    packed = mixed(TRIAL, 0).packed
    for start, length in zip(packed.starts, packed.lengths, strict=True):
        segments = packed.segment_ids[start : start + length]
        assert segments[0] == 0
        assert segments[-1] == 1
        assert (np.diff(segments) >= 0).all()


def test_the_peer_is_asked_for_the_same_tokens_at_the_same_places():
    batch = mixed(TRIAL, 0)
    inputs = {name: tensor.numpy() for name, tensor in padded(batch).items()}
    real = inputs["attention_mask"].astype(bool)
    labels = inputs["labels"][real]
    np.testing.assert_array_equal(inputs["input_ids"][real], batch.packed.token_ids)
    np.testing.assert_array_equal(np.flatnonzero(labels != -100), batch.target_rows)
    np.testing.assert_array_equal(labels[batch.target_rows], batch.target_ids)
    assert (inputs["labels"][~real] == -100).all()
    np.testing.assert_array_equal(inputs["next_sentence_label"], batch.next_labels)


def test_a_part_of_a_step_is_refused():
    with pytest.raises(AssertionError, match="averages"):
        padded(mixed(TRIAL, 0).split(2)[0])


def test_dropout_is_off():
    config = without_dropout(TRIAL)
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0.0
