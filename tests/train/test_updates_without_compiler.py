"""Adam and the norm on a CPU without a compiler, piece by piece, beside the definition."""

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.fusion import unfused
from bertsmith.train import updates
from bertsmith.train.gradient import Gradient
from tests.train.one_run import adam, copied, drawn, squared_norm, tensor_rates

PIECE = 1000


@pytest.fixture(autouse=True)
def _without_compiler(monkeypatch):
    monkeypatch.setattr(updates, "CHUNK_ELEMENTS", PIECE)
    with unfused(), without_native():
        yield


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [1, PIECE - 1, PIECE, PIECE + 1, 7 * PIECE + 13])
def test_weights_moments_and_norm_are_those_of_the_definition(dtype, size):
    flat, gradient = drawn(size, dtype, has_copy=True)
    exact = copied(flat, torch.float64)._replace(copy=None)
    updates.adam_in_one_pass(exact, gradient.double(), tensor_rates(torch.float64))
    norm = squared_norm(Gradient([gradient]))
    adam(flat, Gradient([gradient]))
    # Of 24 bits; torch's kernel takes 1 - 0.999 from float32's 0.999, which is 2^-25 off at most.
    for ours, right, bound in zip(flat[:3], exact[:3], (1e-6, 1e-6, 3e-5), strict=True):
        assert (ours.double() - right).norm() <= bound * right.norm()
    assert torch.equal(flat.copy, flat.weight.bfloat16())
    torch.testing.assert_close(norm.double(), gradient.double().square().sum(), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_moments_too_small_for_a_whole_mantissa_are_zero(dtype):
    flat, gradient = drawn(3 * PIECE + 7, dtype, has_copy=False)
    flat, tiny = copied(flat, dtype), torch.finfo(dtype).tiny
    flat.exp_avg.uniform_(0.5 * tiny, 2 * tiny).mul_(torch.randn(len(gradient)).sign())
    flat.exp_avg_sq.uniform_(0.5 * tiny, 2 * tiny)
    expected = [flat.exp_avg * 0.9, flat.exp_avg_sq * 0.999]
    adam(flat, Gradient([torch.zeros_like(gradient)]))
    for found, right in zip(flat[1:3], expected, strict=True):
        small = right.abs() < tiny
        assert 0.2 < small.float().mean() < 0.8
        assert torch.equal(found == 0.0, small)
        torch.testing.assert_close(found[~small], right[~small], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_a_broken_gradient_is_seen_in_its_weight_alone(broken):
    flat, gradient = drawn(2 * PIECE, torch.float32, has_copy=True)
    gradient[PIECE + 3] = broken
    adam(flat, Gradient([gradient]))
    assert (~flat.weight.isfinite()).nonzero().tolist() == [[PIECE + 3]]
    assert (~flat.copy.isfinite()).nonzero().tolist() == [[PIECE + 3]]
