"""The functions of `cpu_norm.cpp`, beside `elementwise` in float64, which is the definition."""

import pytest
import torch
from torch import nn

from bertsmith.compiler import without_native
from bertsmith.model import cpu_norm
from bertsmith.model.dropout import keep_factors, site_words
from bertsmith.model.elementwise import add_and_norm, norm_and_drop
from tests.builds import NEEDS_COMPILER
from tests.model.draws import PROBABILITIES, words_at_the_bound

# float32 has 24 bits and loses a few in its sums; bfloat16 rounds once, to 1/512 at most.
WITHIN = {torch.float32: 2e-6, torch.bfloat16: 0.003}
ROWS = 75  # two blocks of 32, and what is left

pytestmark = NEEDS_COMPILER


def drawn(dtype, width):
    """Rows, residual and gradient (T, H), words (T,) and a norm."""
    torch.manual_seed(width)
    rows, residual, gradient = (
        (1.5 + torch.randn(ROWS, width)).to(dtype).requires_grad_() for _ in range(3)
    )
    norm = nn.LayerNorm(width, eps=1e-12)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    words = site_words(torch.arange(ROWS, dtype=torch.int32), 1, 2)
    return rows, residual, gradient.detach(), words, norm


def ended(rows, residual, words, probability, norm):
    """A sub-layer's end with a residual, the embedding's without."""
    if residual is None:
        return norm_and_drop(rows, words, probability, norm)
    return add_and_norm(rows, residual, words, probability, norm)


def values_and_gradients(rows, residual, gradient, words, probability, norm):
    leaves = [rows, *norm.parameters()] + ([] if residual is None else [residual])
    values = ended(rows, residual, words, probability, norm)
    return [values.detach(), *torch.autograd.grad(values, leaves, gradient)]


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("width", [4, 20, 32, 100, 256])
@pytest.mark.parametrize("has_residual", [True, False])
@pytest.mark.parametrize("probability", [0.0, 0.1, None])
def test_values_gradients_and_dropout_are_those_of_the_definition(
    dtype, width, has_residual, probability
):
    rows, residual, gradient, words, norm = drawn(dtype, width)
    residual = residual if has_residual else None
    words, rate = (None, 0.1) if probability is None else (words, probability)
    found = values_and_gradients(rows, residual, gradient, words, rate, norm)
    wide = [None if each is None else each.detach().double() for each in (rows, residual)]
    exact = values_and_gradients(
        *(None if each is None else each.requires_grad_() for each in wide),
        gradient.double(),
        words,
        rate,
        norm.double(),
    )
    for ours, right in zip(found, exact, strict=True):
        assert ours.shape == right.shape
        assert (ours.double() - right).norm() <= WITHIN[dtype] * right.norm()
    assert [each.dtype for each in found[1:4]] == [dtype, torch.float32, torch.float32]


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_draws_at_the_bound_are_those_of_the_definition(probability):
    """A draw is compared before its last fold, which the bound makes up for."""
    words, columns = words_at_the_bound(probability), torch.arange(32, dtype=torch.int32)
    norm = nn.LayerNorm(32)
    nn.init.zeros_(norm.weight)
    nn.init.ones_(norm.bias)
    kept = norm_and_drop(torch.randn(len(words), 32), words, probability, norm) > 0
    expected = keep_factors(words[:, None], columns, probability, torch.float32) > 0
    assert torch.equal(kept, expected)
    assert 0.0 < expected[:, 0].float().mean() < 1.0


def test_it_is_these_functions_that_norm(monkeypatch):
    called = []
    call = cpu_norm._call
    monkeypatch.setattr(
        cpu_norm, "_call", lambda name, *rest: [called.append(name), call(name, *rest)]
    )
    rows, residual, gradient, words, norm = drawn(torch.bfloat16, 32)
    values_and_gradients(rows, residual, gradient, words, 0.1, norm)
    values_and_gradients(rows, None, gradient, words, 0.1, norm)
    assert called == ["norm_forward", "norm_backward"] * 2
    with without_native():
        values_and_gradients(rows, residual, gradient, words, 0.1, norm)
        values_and_gradients(rows, None, gradient, words, 0.1, norm)
    assert len(called) == 4


def test_threads_change_no_bit():
    rows, residual, gradient, words, norm = drawn(torch.float32, 20)
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 4):
            torch.set_num_threads(count)
            found.append(values_and_gradients(rows, residual, gradient, words, 0.1, norm))
    finally:
        torch.set_num_threads(threads)
    for one, four in zip(*found, strict=True):
        assert torch.equal(one, four)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
def test_a_broken_number_stays_in_its_row(dtype):
    rows, residual, gradient, words, norm = drawn(dtype, 20)
    sound = values_and_gradients(rows, residual, gradient, words, 0.1, norm)
    broken = rows.detach().clone()
    broken[3, 7] = torch.nan
    found = values_and_gradients(broken.requires_grad_(), residual, gradient, words, 0.1, norm)
    rest = torch.arange(ROWS) != 3
    for number in (0, 1, 4):  # values, gradients of the rows and of the residual
        assert found[number][3].isnan().any()
        assert torch.equal(found[number][rest], sound[number][rest])
    assert found[2].isnan().all()  # the weight's gradient sums over rows


def test_large_numbers_keep_their_digits():
    """The mean is taken away before anything is squared."""
    rows, _, _, _, norm = drawn(torch.float32, 256)
    rows = rows.detach() + 1000.0
    with torch.no_grad():
        found = norm_and_drop(rows, None, 0.0, norm)
        exact = norm_and_drop(rows.double(), None, 0.0, norm.double())
    assert (found.double() - exact).abs().max() < 1e-3  # 1000 has 14 bits behind the point


def test_what_they_do_not_take_is_left_to_the_definition():
    rows, residual, _, _, norm = drawn(torch.float32, 32)
    assert cpu_norm.suits(rows, residual, norm)
    assert not cpu_norm.suits(rows.double(), None, norm)
    assert not cpu_norm.suits(rows.bfloat16(), residual, norm)
    assert not cpu_norm.suits(rows[:0], residual[:0], norm)
    assert not cpu_norm.suits(rows, residual[:1], norm)
    assert not cpu_norm.suits(rows.view(5, -1, 32), None, norm)
    assert not cpu_norm.suits(rows, residual, nn.LayerNorm(16))
    assert not cpu_norm.suits(rows, residual, nn.LayerNorm(32, bias=False))
    assert not cpu_norm.suits(rows, residual, nn.LayerNorm(32).bfloat16())
    assert not cpu_norm.suits(rows, residual, nn.LayerNorm(32).to("meta"))
    with without_native():
        assert not cpu_norm.suits(rows, residual, norm)


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_weights_that_lie_apart_are_left_to_the_definition(name):
    rows, residual, _, _, norm = drawn(torch.float32, 32)
    right = add_and_norm(rows, residual, None, 0.0, norm)
    apart = getattr(norm, name).detach().repeat_interleave(2)[::2]
    setattr(norm, name, nn.Parameter(apart))
    assert not getattr(norm, name).is_contiguous()
    assert not cpu_norm.suits(rows, residual, norm)
    # Its sums are rounded otherwise.
    torch.testing.assert_close(add_and_norm(rows, residual, None, 0.0, norm), right)


def test_frozen_weights_and_a_residual_without_gradient_change_nothing_else():
    rows, residual, gradient, words, norm = drawn(torch.float32, 32)
    right = values_and_gradients(rows, residual, gradient, words, 0.1, norm)[1]
    norm.requires_grad_(False)
    values = add_and_norm(rows, residual.detach(), words, 0.1, norm)
    assert torch.equal(torch.autograd.grad(values, rows, gradient)[0], right)


def test_a_gradient_of_the_gradient_is_refused():
    rows, residual, _, words, norm = drawn(torch.float32, 32)
    values = add_and_norm(rows, residual, words, 0.1, norm)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(values.square().sum(), rows, create_graph=True)


@pytest.mark.parametrize("dtype", WITHIN, ids=str)
@pytest.mark.parametrize("has_residual", [True, False])
def test_values_are_the_same_where_no_gradient_is_asked_for(dtype, has_residual):
    rows, residual, _, words, norm = drawn(dtype, 20)
    residual = residual if has_residual else None
    with torch.no_grad():
        found = ended(rows, residual, words, 0.1, norm)
    assert not found.requires_grad
    assert torch.equal(found, ended(rows, residual, words, 0.1, norm))
