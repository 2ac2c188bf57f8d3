"""Trained beside `transformers` on equal batches: equal losses, step after step."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import loss_curves
from benchmarks.loss_curves import LEARNERS, PeerLearner, Trial, losses
from bertsmith.fusion import unfused
from bertsmith.model.config import TINY, sized

pytest.importorskip("transformers")
pytestmark = pytest.mark.parity

SHORT = Trial(
    model=replace(sized(2, 64, 2), vocab_size=120),
    dtype="float64",
    steps=20,
    batch_size=6,
    learning_rate=4e-3,
    sequence_length=40,
)


class PeerAsItComes(PeerLearner):
    """The peer with its own rule for the [PAD] row."""

    def __init__(self, config, first):
        super().__init__(config, first)
        self.model.get_submodule("bert.embeddings.word_embeddings").padding_idx = 0


def test_twenty_float64_steps_have_the_losses_of_transformers(monkeypatch):
    with unfused():
        ours, theirs = losses("bertsmith", SHORT), losses("transformers", SHORT)
        # Both sum in other orders; the rest is equal to float64's last places.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-10)
        assert len(ours) == 20
        assert min(ours) < ours[0] - 0.1, "nothing was learned, so nothing was compared"
        # One row's gradient is enough to tell two curves apart.
        monkeypatch.setitem(loss_curves.LEARNERS, "transformers", PeerAsItComes)
        assert np.abs(np.subtract(losses("transformers", SHORT), ours)).max() > 1e-5


@pytest.mark.slow
def test_two_hundred_float64_steps_at_tiny_size_stay_within_a_millionth():
    trial = replace(SHORT, steps=200, batch_size=8, sequence_length=64)
    # TINY as it is, and with a vocabulary so small that 200 steps learn something of it.
    for model in (TINY, replace(TINY, vocab_size=1_000)):
        ours, theirs = (losses(system, replace(trial, model=model)) for system in LEARNERS)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)
    assert np.mean(ours[-20:]) < np.mean(ours[:20]) - 0.5
