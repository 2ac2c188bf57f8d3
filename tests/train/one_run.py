"""A run of weights alone, as `updates` takes several together."""

import torch

from bertsmith.train.updates import Flat, Rates, TensorRates, Update, Updates

RATES = Rates(1e-3, 0.01, 0.9, 0.1, 0.999, 0.001, 1e-6, 1.3, 0.8)
FACTOR = torch.tensor(0.7)


def tensor_rates(dtype=torch.float32):
    return TensorRates.of(RATES, FACTOR.to(dtype))


def adam(flat, gradient, sleepers=None, rates=RATES):
    """Of one run alone."""
    Updates([Update(flat, gradient, rates, sleepers)]).take(FACTOR)


def squared_norm(gradient, sleepers=None):
    """Of one run alone; the norm reads no weights."""
    of_table = gradient.table is not None
    size = gradient.table.numel() if of_table else sum(map(torch.numel, gradient.numbers))
    flat = Flat(*torch.zeros(3, size, device="cpu"), None)
    return Updates([Update(flat, gradient, RATES, sleepers)]).squared_norm()


def drawn(size, dtype, has_copy):
    torch.manual_seed(size)
    weight, exp_avg = torch.randn(size), 1e-2 * torch.randn(size)
    copy = weight.bfloat16() if has_copy else None
    gradient = torch.randn(size).to(dtype)
    return Flat(weight, exp_avg, 1e-4 * torch.rand(size), copy), gradient


def copied(flat, dtype=torch.float32):
    """Memory of its own; the copy in the type that it has."""
    wide = (each.clone().to(dtype) for each in flat[:3])
    return Flat(*wide, None if flat.copy is None else flat.copy.clone())
