"""Weights laid out ahead: the same results, only where nobody asks for a gradient."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrize

from bertsmith.model import linear as module
from bertsmith.model.config import Activation
from bertsmith.model.layers import lay_out
from bertsmith.model.linear import Linear, can_lay_out, project_and_norm

PLAIN = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda rows: functional.gelu(rows, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
    "tanh": torch.tanh,
}
needs_layout = pytest.mark.skipif(
    not can_lay_out(torch.zeros(1, 1)), reason="this build of torch has no such products"
)


def a_linear(width: int = 48, out: int = 80) -> Linear:
    torch.manual_seed(width + out)
    return Linear(width, out)


def laid_out(linear: Linear) -> Linear:
    linear.lay_out()
    with torch.no_grad():
        assert (
            linear.ready_for(torch.zeros(1, linear.in_features, dtype=linear.weight.dtype))
            is not None
        )
    return linear


def product(linear: Linear, rows: Tensor) -> Tensor:
    """By the definition."""
    return rows @ linear.weight.T + linear.bias


@needs_layout
@torch.no_grad()
@pytest.mark.parametrize("num_rows", [1, 7, 300])
def test_the_product_is_that_of_the_weights_as_they_are(num_rows: int) -> None:
    linear = laid_out(a_linear())
    rows = torch.randn(num_rows, 48)
    torch.testing.assert_close(linear(rows), product(linear, rows))


@needs_layout
@torch.no_grad()
@pytest.mark.parametrize("activation", PLAIN)
def test_an_activation_in_one_with_the_product_is_the_plain_one(activation: Activation) -> None:
    linear = laid_out(a_linear())
    rows = 3.0 * torch.randn(50, 48)
    expected = PLAIN[activation](product(linear, rows))
    torch.testing.assert_close(linear.activated(rows, activation), expected)
    torch.testing.assert_close(a_linear().activated(rows, activation), expected)


@needs_layout
@torch.no_grad()
@pytest.mark.parametrize("num_rows", [0, 50])
def test_a_sub_layer_ends_as_by_the_definition(num_rows: int) -> None:
    linear, norm = laid_out(a_linear()), nn.LayerNorm(80, eps=1e-12)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    rows, residual = torch.randn(num_rows, 48), torch.randn(num_rows, 80)
    expected = norm(residual + product(linear, rows))
    for one in (linear, a_linear()):
        ended = project_and_norm(one, rows, residual, None, 0.1, norm)
        torch.testing.assert_close(ended, expected, atol=2e-6, rtol=1e-5)
    torch.testing.assert_close(linear.plus(rows, residual), residual + product(linear, rows))


@needs_layout
@torch.no_grad()
def test_dropout_is_not_left_out() -> None:
    linear, norm = laid_out(a_linear()), nn.LayerNorm(80)
    rows, residual = torch.randn(20, 48), torch.randn(20, 80)
    words = torch.arange(20, dtype=torch.int32)
    expected = project_and_norm(a_linear(), rows, residual, words, 0.5, norm)
    torch.testing.assert_close(project_and_norm(linear, rows, residual, words, 0.5, norm), expected)
    without = project_and_norm(linear, rows, residual, None, 0.5, norm)
    assert not torch.allclose(expected, without)


@needs_layout
@torch.no_grad()
def test_half_precision_is_the_plain_one_within_its_rounding() -> None:
    linear, norm = a_linear().bfloat16(), nn.LayerNorm(80).bfloat16()
    if not can_lay_out(linear.weight):
        pytest.skip("this CPU has no products in bfloat16")
    laid_out(linear)
    rows, residual = torch.randn(50, 48).bfloat16(), torch.randn(50, 80).bfloat16()
    expected = functional.gelu(product(linear.float(), rows.float())).bfloat16()
    linear.bfloat16().lay_out()
    torch.testing.assert_close(linear.activated(rows, "gelu"), expected)
    ended = project_and_norm(linear, rows, residual, None, 0.1, norm)
    torch.testing.assert_close(ended, norm(residual + linear(rows)), atol=0.05, rtol=0.02)


@needs_layout
def test_with_gradients_and_other_types_the_weights_are_taken_as_they_are() -> None:
    linear = laid_out(a_linear())
    rows = torch.randn(5, 48)
    assert linear.ready_for(rows) is None
    linear.activated(rows, "gelu").sum().backward()
    assert linear.weight.grad is not None
    with torch.no_grad():
        linear.double()
        assert linear.ready_for(rows.double()) is None
        torch.testing.assert_close(linear(rows.double()), product(linear, rows.double()))


@needs_layout
def test_weights_that_changed_are_not_mistaken_for_those_laid_out() -> None:
    linear = laid_out(a_linear())
    rows = torch.randn(5, 48)
    before = linear(rows)
    optimizer = torch.optim.SGD(linear.parameters(), lr=1.0)
    before.sum().backward()
    optimizer.step()
    with torch.no_grad():
        assert linear.ready_for(rows) is None
        torch.testing.assert_close(linear(rows), product(linear, rows))
        linear.lay_out()
        torch.testing.assert_close(linear(rows), product(linear, rows))
        linear.load_state_dict(a_linear().state_dict())
        torch.testing.assert_close(linear(rows), before)


class Negated(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return -weight


@needs_layout
@torch.no_grad()
def test_weights_that_others_make_are_not_kept() -> None:
    linear, rows = a_linear(512, 512), torch.randn(5, 512)
    parametrize.register_parametrization(linear, "weight", Negated())
    linear.take(module.TiledWeights(linear.weight))
    for _ in range(10):  # what is made anew may lie where the last one did
        linear.parametrizations.weight.original.mul_(1.1)
        found = linear(rows)
        torch.testing.assert_close(found, product(linear, rows))
    linear.forget()
    linear.lay_out()
    assert linear._ready is None


@needs_layout
@torch.no_grad()
def test_a_copy_and_a_pickle_have_the_weights_alone() -> None:
    linear = laid_out(a_linear())
    stored = io.BytesIO()
    torch.save(linear, stored)
    stored.seek(0)
    rows = torch.randn(5, 48)
    for copied in (copy.deepcopy(linear), torch.load(stored, weights_only=False)):
        assert copied.ready_for(rows) is None
        torch.testing.assert_close(copied(rows), linear(rows))
    assert list(linear.state_dict()) == ["weight", "bias"]


@torch.no_grad()
def test_where_torch_has_no_such_products_nothing_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "can_lay_out", lambda weight: False)
    linear = a_linear()
    lay_out(nn.Sequential(linear))
    rows = torch.randn(5, 48)
    assert linear.ready_for(rows) is None
    torch.testing.assert_close(linear(rows), product(linear, rows))
