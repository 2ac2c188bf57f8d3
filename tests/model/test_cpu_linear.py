"""The function of `cpu_weight_gradients.cpp`, beside the plain linear map in float64."""

import contextlib
import functools

import pytest
import torch
from torch.nn import functional

from bertsmith import native
from bertsmith.compiler import Build, without_native
from bertsmith.model import cpu_linear
from bertsmith.model.cpu_linear import SOURCE, linear, suits, weight_gradients
from bertsmith.model.linear import Linear
from bertsmith.native import has_fast_products
from tests.builds import NEEDS_COMPILER, fastest_in, has_tiles, without_tiles

# A sum of products of bfloat16, exact in float32, that is rounded once: 2^-9 and a little.
WITHIN = 2.1e-3
PART = 256  # of the source

pytestmark = NEEDS_COMPILER


anywhere = fastest_in(cpu_linear)


def drawn(num_rows, width, outputs):
    torch.manual_seed(num_rows)
    shapes = [(num_rows, outputs), (num_rows, width)]
    return [torch.randn(shape).bfloat16() for shape in shapes]


SHAPES = [
    *((rows, 64, 32) for rows in (1, 2, 31, 33, 100)),
    *((40, width, 17) for width in (1, 16, 33, 70)),
    *((40, 33, outputs) for outputs in (1, 2, 31, 70, 300, 520)),
    *((rows, 40, 48) for rows in (PART - 1, PART, PART + 1, 2 * PART + 37)),
    *((2 * PART + 37, *each) for each in ((40, 300), (300, 40))),  # parts of several panels
    (PART + 1, 600, 640),  # more blocks than a panel takes steps to lay out
]


@pytest.mark.parametrize("way", [contextlib.nullcontext, without_tiles])
@pytest.mark.parametrize(("num_rows", "width", "outputs"), SHAPES)
def test_gradients_are_those_of_the_plain_map(num_rows, width, outputs, way):
    gradients, rows = drawn(num_rows, width, outputs)
    with way():
        of_weight, of_bias = weight_gradients(gradients, rows)
    exact = gradients.double().T @ rows.double()
    assert of_weight.dtype == torch.bfloat16
    assert (of_weight.double() - exact).norm() <= WITHIN * exact.norm()
    # Of each number: half a unit in the eighth place, and what sums in float32 lose.
    most = exact.abs() / 256 + 1e-5 * num_rows**0.5
    assert ((of_weight.double() - exact).abs() <= most).all()
    exact = gradients.double().sum(0)
    assert of_bias.dtype == torch.float32
    assert (of_bias.double() - exact).abs().max() <= 1e-6 * num_rows


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    gradients, rows = drawn(PART + 100, 96, 600)
    found = []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(weight_gradients(gradients, rows))
    finally:
        torch.set_num_threads(threads)
    for of_weight, of_bias in found[1:]:
        assert torch.equal(of_weight, found[0][0])
        assert torch.equal(of_bias, found[0][1])


def test_a_row_that_is_no_number_spoils_its_own_output_alone():
    gradients, rows = drawn(50, 40, 30)
    gradients[7, 5] = float("nan")
    of_weight, of_bias = weight_gradients(gradients, rows)
    is_broken = torch.zeros(30, dtype=torch.bool)
    is_broken[5] = True
    assert torch.equal(of_weight.isnan().all(dim=1), is_broken)
    assert torch.equal(of_weight.isnan().any(dim=1), is_broken)
    assert torch.equal(of_bias.isnan(), is_broken)


def test_the_map_learns_as_the_plain_one():
    torch.manual_seed(1)
    ours, plain = (Linear(64, 48).bfloat16() for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    rows = [torch.randn(70, 64).bfloat16().requires_grad_() for _ in range(2)]
    rows[1].data.copy_(rows[0].data)
    towards = torch.randn(48, 70).bfloat16().T  # its gradient does not lie row by row
    found = ours(rows[0])
    assert type(found.grad_fn).__name__ == "_LinearBackward"
    with without_native():
        expected = plain(rows[1])
    assert torch.equal(found, expected)
    for each in (found, expected):
        each.backward(towards)
    assert torch.equal(rows[0].grad, rows[1].grad)
    for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True):
        assert mine.grad.dtype == theirs.grad.dtype
        assert (mine.grad - theirs.grad).float().norm() <= 2 * WITHIN * theirs.grad.float().norm()


def test_rows_that_nobody_learns_have_no_gradient():
    layer, rows = Linear(64, 48).bfloat16(), torch.randn(5, 64).bfloat16()
    layer(rows).sum().backward()
    assert rows.grad is None
    assert layer.weight.grad is not None


def test_what_it_does_not_take_goes_the_plain_way(monkeypatch):
    rows, weight = torch.randn(4, 8).bfloat16(), torch.randn(6, 8).bfloat16().requires_grad_()
    bias = torch.zeros(6).bfloat16().requires_grad_()
    assert suits(rows, weight, bias)
    assert not suits(rows[:0], weight, bias)
    assert not suits(rows, weight[:0], bias[:0])
    assert not suits(rows[None], weight, bias)
    assert not suits(rows.float(), weight.float(), bias.float())
    assert not suits(rows, weight, bias.float())
    assert not suits(rows, weight.detach(), bias)
    with torch.no_grad():
        assert not suits(rows, weight, bias)
    with torch.autocast("cpu", torch.bfloat16):
        assert not suits(rows, weight, bias)
    with without_native():
        assert not suits(rows, weight, bias)
    assert torch.equal(linear(rows[None], weight, bias)[0], functional.linear(rows, weight, bias))
    monkeypatch.setattr(cpu_linear, "has_fast_products", lambda *_, **__: False)
    assert not suits(rows, weight, bias)


def test_it_is_taken_where_there_is_a_matrix_unit_alone(monkeypatch):
    monkeypatch.undo()
    half = torch.zeros(1).bfloat16()
    assert has_fast_products(SOURCE, half, in_tiles=True) is has_tiles()
    monkeypatch.setattr(native, "build", functools.cache(Build))
    monkeypatch.setattr(native, "library", lambda _: pytest.fail("something was built"))
    assert not has_fast_products(SOURCE, half, in_tiles=True)
