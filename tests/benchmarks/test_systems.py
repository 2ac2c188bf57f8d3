from dataclasses import replace

import numpy as np
import pytest
import torch

from benchmarks.batches import synthetic
from benchmarks.systems import SYSTEMS, VARIANTS, Setup, padded
from bertsmith.batch import PretrainBatch
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel

CONFIG = replace(
    sized(2, 32, 2),
    vocab_size=1200,
    max_position_embeddings=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


def shortened(batch: PretrainBatch) -> PretrainBatch:
    """One sequence of two."""
    return replace(batch.split(2)[0], step_targets=len(batch.split(2)[0].target_rows))


def test_full_sequences_need_no_mask_and_shorter_ones_are_padded_as_asked():
    batch = synthetic(CONFIG, 20, 2, 0)
    assert "attention_mask" not in padded(batch)
    inputs = padded(batch, 32)
    assert all(inputs[name].shape == (2, 32) for name in ("input_ids", "labels", "token_type_ids"))
    assert inputs["attention_mask"].sum(dim=1).tolist() == [20, 20]
    real = inputs["attention_mask"].bool().numpy()
    np.testing.assert_array_equal(inputs["input_ids"].numpy()[real], batch.packed.token_ids)
    assert (inputs["labels"].numpy()[~real] == -100).all()


def test_the_variants_are_systems():
    assert set(VARIANTS) < set(SYSTEMS)


@pytest.mark.parity
@pytest.mark.parametrize("padded_length", [None, 32])
def test_all_systems_begin_with_the_same_loss_and_learn(padded_length):
    model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
    initialise(model, std=0.02, seed=0)
    setup = Setup(config=CONFIG, weights=model.state_dict(), padded_length=padded_length)
    batch = synthetic(CONFIG, 20, 4, 0)
    first = {}
    for name in ("bertsmith", "transformers default"):
        step = SYSTEMS[name](setup)
        losses = [float(step(batch, number)) for number in range(10)]
        assert losses[-1] < losses[0]
        first[name] = losses[0]
    # Two layers of bfloat16, of 8 bits, where the hardware has it; else float32 in another order.
    assert first["bertsmith"] == pytest.approx(first["transformers default"], rel=2.0**-8)


def test_a_loss_is_handed_on_without_its_graph():
    model = PretrainModel(CONFIG, ("masked_lm", "next_sentence"))
    initialise(model, std=0.02, seed=0)
    step = SYSTEMS["bertsmith"](Setup(config=CONFIG, weights=model.state_dict()))
    loss = step(synthetic(CONFIG, 20, 2, 0), 0)
    assert isinstance(loss, torch.Tensor)
    assert not loss.requires_grad
