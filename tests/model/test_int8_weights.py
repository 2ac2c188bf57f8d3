"""Eight bits: the exact sum of rounded levels, row by row, and never where a gradient is wanted."""

import numpy as np
import pytest
import torch

from bertsmith.model.int8_weights import LEVELS, Int8Weights, multiplies_int8
from bertsmith.model.linear import Linear, project_and_norm

pytestmark = pytest.mark.skipif(not multiplies_int8(), reason="this CPU does not multiply int8")


def rounded(rows: torch.Tensor) -> np.ndarray:
    """By the definition: each row at the nearest of 255 levels of its largest, in float64."""
    values = rows.double().numpy()
    steps = np.abs(values).max(axis=1, keepdims=True) / LEVELS
    return np.round(values / np.where(steps == 0, 1, steps)) * steps


def a_linear() -> Linear:
    torch.manual_seed(4)
    linear = Linear(96, 80)
    linear.weight.data *= torch.logspace(-3, 1, 80)[:, None]  # outputs of very different sizes
    return linear


@torch.no_grad()
@pytest.mark.parametrize("num_rows", [1, 7, 300])
def test_a_product_is_that_of_the_rounded_rows_and_weights(num_rows):
    linear = a_linear()
    rows = torch.randn(num_rows, 96) * torch.logspace(-2, 2, num_rows)[:, None]
    rows[0] = 0.0
    expected = rounded(rows) @ rounded(linear.weight).T + linear.bias.double().numpy()
    linear.take(Int8Weights(linear.weight))
    size = np.abs(expected).max(axis=1, keepdims=True) + 1e-6
    np.testing.assert_array_less(np.abs(linear(rows).double().numpy() - expected) / size, 2e-6)
    residual = torch.randn(num_rows, 80)
    found = linear.plus(rows, residual).double().numpy()
    np.testing.assert_allclose(found, expected + residual.double().numpy(), rtol=1e-4, atol=1e-5)
    for activation in ("gelu", "tanh"):
        plain = {"gelu": torch.nn.functional.gelu, "tanh": torch.tanh}[activation]
        torch.testing.assert_close(
            linear.activated(rows, activation).double(), plain(torch.from_numpy(expected)),
            rtol=1e-4, atol=1e-5,
        )  # fmt: skip


@torch.no_grad()
def test_sums_of_the_highest_levels_are_exact_and_rows_of_bfloat16_are_rounded_as_they_are():
    weight = torch.ones(16, 3072)
    weight[:, ::3] = -1.0
    rows = torch.stack([weight[0], -weight[0], torch.ones(3072)]).bfloat16()
    found = Int8Weights(weight).product(rows, torch.zeros(16))
    assert found.dtype == torch.bfloat16
    assert found[:, 0].tolist() == [3072.0, -3072.0, 1024.0]


@torch.no_grad()
def test_a_row_that_is_no_number_stays_so_and_spoils_no_other():
    linear = a_linear()
    linear.take(Int8Weights(linear.weight))
    rows = torch.randn(3, 96)
    expected = linear(rows)
    rows[1, 5] = float("nan")
    found = linear(rows)
    assert found[1].isnan().all()
    assert torch.equal(found[::2], expected[::2])


@torch.no_grad()
def test_it_is_near_the_product_that_it_stands_for():
    linear = a_linear()
    rows = torch.randn(200, 96)
    exact = rows @ linear.weight.T + linear.bias
    linear.take(Int8Weights(linear.weight))
    error = (linear(rows) - exact).norm(dim=0) / exact.norm(dim=0)
    # Two roundings to within half of a 127th of the largest of 96 values, which is about 2.6
    # deviations: 0.6% each.
    assert 0.002 < error.mean() < 0.015
    assert error.max() < 0.02


@torch.no_grad()
def test_what_a_row_becomes_does_not_depend_on_the_others():
    linear = a_linear()
    linear.take(Int8Weights(linear.weight))
    rows = torch.randn(5, 96)
    alone = linear(rows[2:3])
    rows[0] *= 1000
    assert torch.equal(linear(rows)[2:3], alone)


def test_learning_takes_the_weights_as_they_are_and_a_changed_weight_undoes_eight_bits():
    linear, norm = a_linear(), torch.nn.LayerNorm(80)
    rows, residual = torch.randn(5, 96), torch.randn(5, 80)
    exact = linear(rows)
    linear.take(Int8Weights(linear.weight))
    assert torch.equal(linear(rows), exact)
    with torch.no_grad():
        assert not torch.equal(linear(rows), exact)
        ended = project_and_norm(linear, rows, residual, None, 0.0, norm)
        torch.testing.assert_close(ended, norm(linear(rows) + residual), atol=1e-5, rtol=1e-5)
        linear.weight.mul_(2.0)
        torch.testing.assert_close(linear(rows), 2.0 * (exact - linear.bias) + linear.bias)
