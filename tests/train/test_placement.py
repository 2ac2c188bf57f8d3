"""A model on its device: cast, while the optimizer holds the weights as they were."""

from __future__ import annotations

import torch
from torch import nn

from bertsmith.train.config import OptimizerConfig
from bertsmith.train.placement import placed


def test_masters_keep_the_digits_that_the_cast_weights_lose() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    model[2].requires_grad_(False)
    first = {name: each.detach().clone() for name, each in model.named_parameters()}
    masters = placed(model, OptimizerConfig(), "bf16", torch.device("cpu")).masters()
    assert masters.keys() == {name for name in first if not name.startswith("2.")}
    assert all(torch.equal(each, first[name]) for name, each in masters.items())
    assert model[0].weight.dtype == model[2].weight.dtype == torch.bfloat16
    assert model[1].weight.dtype == torch.float32
    assert torch.equal(model[0].weight, first["0.weight"].bfloat16())
