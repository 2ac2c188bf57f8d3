"""Products of float16 beside their definition, and beside the plain linear map in float64."""

import functools

import pytest
import torch
from torch import nn
from torch.nn import functional

from bertsmith import native
from bertsmith.compiler import Build, without_native
from bertsmith.model import cpu_linear, cpu_whole_loss, float16
from bertsmith.model.float16 import (
    SOURCE,
    linear,
    product,
    row_gradients,
    suits,
    weight_gradients,
)
from bertsmith.model.linear import Linear
from bertsmith.native import multiplies_float16
from bertsmith.processors import OPTIONS
from bertsmith.train.device import choose_float16
from tests.builds import NEEDS_COMPILER
from tests.checkpoints.tiny import tiny_model
from tests.model import plain_float16
from tests.model.plain import random_pretrain_batch

# Eleven bits of both factors, and sums of 64 that lose as many; products of bfloat16 lose 1.6e-3.
WITHIN = 1.5e-3
PART = 16 * 64  # rows that are added up at a time: of the source

needs_them = pytest.mark.skipif(not multiplies_float16(), reason="no products of float16 here")


def drawn(num_rows, width, outputs):
    """Rows, weights and gradients of what became of rows."""
    torch.manual_seed(num_rows + width)
    rows, weight = torch.randn(num_rows, width), torch.randn(outputs, width) * 0.02
    return rows, weight, torch.randn(num_rows, outputs) * 1e-6


SHAPES = [
    *((rows, 64, 40) for rows in (1, 2, 5, 6, 7, 47, 48, 49, 200)),
    *((13, width, 17) for width in (1, 15, 16, 17, 63, 65, 128, 200)),
    *((13, 70, outputs) for outputs in (1, 16, 127, 128, 129, 300, 520)),
    *((rows, 20, 24) for rows in (PART - 1, PART, PART + 1, 2 * PART + 37)),
]


@needs_them
@pytest.mark.parametrize(("num_rows", "width", "outputs"), SHAPES)
def test_products_are_those_of_the_definition_to_the_bit(num_rows, width, outputs):
    rows, weight, gradients = drawn(num_rows, width, outputs)
    assert torch.equal(product(rows, weight), plain_float16.product(rows, weight))
    defined = plain_float16.product(gradients, weight.T)
    assert torch.equal(row_gradients(gradients, weight), defined)


@needs_them
@pytest.mark.parametrize(("num_rows", "width", "outputs"), SHAPES)
def test_gradients_of_weights_are_those_of_the_definition(num_rows, width, outputs):
    rows, _, gradients = drawn(num_rows, width, outputs)
    of_weight, of_bias = weight_gradients(gradients, rows)
    defined = torch.zeros(outputs, width)
    for part, others in zip(gradients.split(PART), rows.split(PART), strict=True):
        defined += plain_float16.product(part.T, others.T)
    assert torch.equal(of_weight, defined)
    exact = gradients.double().sum(0)
    assert (of_bias.double() - exact).abs().max() <= 1e-6 * gradients.abs().sum(0).max()


@needs_them
@pytest.mark.parametrize(("num_rows", "width", "outputs"), [(300, 256, 1024), (90, 1500, 130)])
def test_they_are_near_the_exact_ones(num_rows, width, outputs):
    rows, weight, gradients = (each.double() for each in drawn(num_rows, width, outputs))
    bias = torch.randn(outputs)
    found = [
        product(rows.float(), weight.float(), bias),
        row_gradients(gradients.float(), weight.float()),
        weight_gradients(gradients.float(), rows.float())[0],
    ]
    expected = [rows @ weight.T + bias, gradients @ weight, gradients.T @ rows]
    for mine, exact in zip(found, expected, strict=True):
        assert (mine.double() - exact).norm() <= WITHIN * exact.norm()


@needs_them
def test_neither_large_nor_small_numbers_leave_its_range():
    rows, weight, _ = drawn(20, 130, 40)
    found = product(rows, weight)
    for power in (-60, -100, 60, 100):
        assert torch.equal(product(rows * 2.0**power, weight), found * 2.0**power)
        assert torch.equal(product(rows, weight * 2.0**power), found * 2.0**power)
    assert torch.equal(product(torch.zeros(3, 130), weight), torch.zeros(3, 40))
    tiny = torch.full((3, 130), 1e-40)
    exact = tiny.double() @ weight.double().T
    assert (product(tiny, weight).double() - exact).abs().max() <= 0.01 * exact.abs().max()


@needs_them
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_spoils_its_own_results_alone(broken):
    rows, weight, gradients = drawn(50, 70, 30)
    rows[7, 66], weight[11, 3] = broken, broken
    is_broken = torch.zeros(50, 30, dtype=torch.bool)
    is_broken[7], is_broken[:, 11] = True, True
    assert torch.equal(product(rows, weight).isfinite(), ~is_broken)
    gradients[4, 5] = broken
    of_weight, of_bias = weight_gradients(gradients, rows[:1].expand(50, -1).clone())
    assert of_weight.isfinite().all(dim=1).tolist() == [each != 5 for each in range(30)]
    assert of_bias.isfinite().tolist() == [each != 5 for each in range(30)]


@needs_them
def test_neither_threads_nor_other_rows_change_a_bit():
    rows, weight, gradients = drawn(PART + 100, 96, 600)
    found = []
    threads = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            pair = product(rows, weight), row_gradients(gradients, weight)
            found.append((*pair, *weight_gradients(gradients, rows)))
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(*both) for both in zip(other, found[0], strict=True))
    assert torch.equal(product(rows[77:78], weight), found[0][0][77:78])


@needs_them
def test_large_results_are_the_same_past_the_cache():
    rows, weight, _ = drawn(1100, 20, 1024)  # more than 2^20 numbers, in whole lines
    assert torch.equal(product(rows, weight)[:700], product(rows[:700], weight))
    apart = torch.empty(1100 * 1024 + 1)[1:].view(1100, 1024)  # not in whole lines
    assert torch.equal(product(rows, weight, output=apart), product(rows, weight))


@needs_them
def test_the_map_learns_as_the_plain_one():
    torch.manual_seed(1)
    ours, plain = (Linear(64, 48) for _ in range(2))
    plain.load_state_dict(ours.state_dict())
    choose_float16(ours, True)
    rows = [torch.randn(70, 64).requires_grad_() for _ in range(2)]
    rows[1].data.copy_(rows[0].data)
    towards = torch.randn(48, 70).T  # its gradient does not lie row by row
    found, expected = ours(rows[0]), plain(rows[1])
    assert type(found.grad_fn).__name__ == "_Float16LinearBackward"
    assert not torch.equal(found, expected)
    for each in (found, expected):
        each.backward(towards)
    pairs = [(found, expected), (rows[0].grad, rows[1].grad)]
    pairs += [
        (mine.grad, theirs.grad)
        for mine, theirs in zip(ours.parameters(), plain.parameters(), strict=True)
    ]
    for mine, theirs in pairs:
        assert mine.dtype == torch.float32
        assert (mine - theirs).norm() <= WITHIN * theirs.norm()


@needs_them
def test_every_map_of_a_step_goes_this_way_and_learns(monkeypatch):
    """Those of the last layer too, whose queries are made of some rows alone, and the loss."""
    batch = random_pretrain_batch([20, 17, 24, 3], tiny_model().config.vocab_size)
    model = tiny_model()
    found, sources, loss = [], [], cpu_whole_loss.loss
    monkeypatch.setattr(
        cpu_whole_loss,
        "loss",
        lambda *given, **how: [sources.append(how["in_float16"]), loss(*given, **how)][1],
    )
    for condition in (False, True):
        choose_float16(model, condition)
        if condition:
            monkeypatch.setattr(cpu_linear, "linear", lambda *_: pytest.fail("in float32"))
        total = model(batch, (0, 1)).loss
        found.append((total.detach(), *torch.autograd.grad(total, list(model.parameters()))))
    assert sources[-1] is True
    for exact, rounded in zip(*found, strict=True):
        assert (exact - rounded).norm() <= 0.02 * exact.norm() + 1e-6
    assert not torch.equal(found[0][0], found[1][0])


@needs_them
def test_what_nobody_learns_has_no_gradient(monkeypatch):
    layer, rows = Linear(64, 48), torch.randn(5, 64)
    choose_float16(layer, True)
    layer(rows).sum().backward()
    assert rows.grad is None
    assert layer.weight.grad is not None
    layer.requires_grad_(False)
    monkeypatch.setattr(float16, "weight_gradients", lambda *_: pytest.fail("made for nobody"))
    layer(rows.requires_grad_()).sum().backward()
    assert rows.grad is not None


@needs_them
def test_what_it_does_not_take_goes_the_plain_way():
    rows, weight, _ = drawn(4, 8, 6)
    bias = torch.zeros(6)
    assert suits(rows, weight, bias)
    assert not suits(rows[:0], weight, bias)
    assert not suits(rows, weight[:0], bias[:0])
    assert not suits(rows[None], weight, bias)
    assert not suits(rows.bfloat16(), weight.bfloat16(), bias.bfloat16())
    assert not suits(rows.double(), weight.double(), bias.double())
    with torch.autocast("cpu", torch.bfloat16):
        assert not suits(rows, weight, bias)
    with without_native():
        assert not suits(rows, weight, bias)
    assert torch.equal(linear(rows[None], weight, bias)[0], functional.linear(rows, weight, bias))


def test_who_can_is_told_and_others_are_not():
    model = nn.Sequential(Linear(2, 2), nn.Linear(2, 2), nn.Sequential(Linear(2, 3)))
    choose_float16(model, True)
    assert [getattr(each, "in_float16", None) for each in model] == [True, None, None]
    assert model[2][0].in_float16
    choose_float16(model, False)
    assert not model[0].in_float16


def test_where_no_build_could_have_them_none_is_made(monkeypatch):
    monkeypatch.setattr(native, "build", functools.cache(Build))
    monkeypatch.setattr(native, "library", lambda _: pytest.fail("something was built"))
    assert not multiplies_float16()
    rows, weight, _ = drawn(4, 8, 6)
    assert not suits(rows, weight, torch.zeros(6))
    targets = torch.zeros(4, dtype=torch.int64)
    assert not cpu_whole_loss.suits(rows, weight, torch.zeros(6), targets, in_float16=True)


@NEEDS_COMPILER
def test_a_processor_without_them_says_so(monkeypatch):
    built = native.build()
    others = tuple(each for each in built.instructions if each != OPTIONS["avx512_fp16"])
    monkeypatch.setattr(native, "build", lambda: Build(options=built.options, instructions=others))
    native._loaded.cache_clear()
    try:
        assert native.call(SOURCE, "multiplies", torch.zeros(1)) == 0.0
    finally:
        native._loaded.cache_clear()
