"""A dense layer of sentence vectors with weights of its own, for the tests."""

from __future__ import annotations

import torch

from bertsmith.model.pooling import Dense
from bertsmith.model.sentence import DenseConfig


def random_dense(config: DenseConfig, seed: int = 11) -> Dense:
    """Weights large enough (deviation 0.3) that wrong wiring shows."""
    dense, generator = Dense(config), torch.Generator().manual_seed(seed)
    for parameter in dense.parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=generator)
    return dense.eval()
