"""A model on its device: cast, while the optimizer holds the weights as they were."""

from __future__ import annotations

import torch
from torch import nn

from bertsmith.model.embeddings import Table
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.flat import LARGE_ELEMENTS
from bertsmith.train.placement import leave_sparse, placed


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


def test_large_tables_leave_sparse_gradients_and_nothing_else_does() -> None:
    large, small = Table(LARGE_ELEMENTS // 8, 8), Table(LARGE_ELEMENTS // 8 - 1, 8)
    other = nn.Embedding(LARGE_ELEMENTS // 8, 8)
    model = nn.ModuleList([large, small, other])
    optimizer = placed(model, OptimizerConfig(), "fp32", torch.device("cpu"))
    ids = torch.tensor([3, 3, 5])
    (large(ids).sum() + small(ids).sum() + other(ids).sum()).backward()
    assert [each.weight.grad.is_sparse for each in (large, small, other)] == [True, False, False]
    before = large.weight.detach().clone()
    optimizer.step(1e-2)
    changed = (large.weight != before).any(dim=1).nonzero().flatten().tolist()
    assert {3, 5} <= set(changed)
    leave_sparse(model, False)
    large.weight.grad = None
    large(ids).sum().backward()
    assert not large.weight.grad.is_sparse
