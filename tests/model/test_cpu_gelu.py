"""The functions of `cpu_gelu.cpp`, beside GELU and its derivative in float64."""

import ctypes

import pytest
import torch
from torch.nn import functional

from bertsmith.compiler import without_native
from bertsmith.model import cpu_gelu
from bertsmith.model.cpu_gelu import gelu, suits
from bertsmith.model.elementwise import activate
from bertsmith.native import library, pointer
from tests.builds import NEEDS_COMPILER, in_a_cache_of_its_own, with_vectors_of

pytestmark = NEEDS_COMPILER

ROUGH = f"""
#include "{cpu_gelu.SOURCE.with_suffix(".h")}"

extern "C" void rough(float* numbers, int64_t count) {{
  for (int64_t i = 0; i < count; i += LANES) store(numbers + i, rough_gelu(load(numbers + i)));
}}
extern "C" int lanes() {{ return LANES; }}
"""
EVERY = torch.arange(-32768, 32768).to(torch.int16).view(torch.bfloat16)
"""Every bfloat16 number."""


@pytest.fixture(params=[None, "32", "16"])
def _vectors(request, monkeypatch, tmp_path):
    """Those of this processor, and narrower ones."""
    if request.param is None:
        yield
        return
    built = in_a_cache_of_its_own(tmp_path, monkeypatch)
    next(built)
    with_vectors_of(request.param, monkeypatch)
    yield
    next(built, None)


def exact(inner, gradients):
    """GELU and the gradients of what went in, in float64."""
    inner = inner.double().requires_grad_()
    output = functional.gelu(inner)
    output.backward(gradients.double())
    return output.detach(), inner.grad


def half_a_unit(values):
    """By how much rounding to bfloat16 may change each value: the instruction has no subnormals."""
    return values.abs() / 256 + torch.finfo(torch.bfloat16).tiny


def learned(inner, gradients):
    inner = inner.clone().requires_grad_()
    output = gelu(inner)
    output.backward(gradients)
    return output.detach(), inner.grad


@pytest.mark.usefixtures("_vectors")
def test_every_number_has_the_value_and_slope_of_gelu():
    inner = EVERY[EVERY.isfinite()]
    assert suits(inner)
    found = learned(inner, torch.ones_like(inner))
    expected = exact(inner, torch.ones_like(inner))
    for mine, theirs, within in zip(found, expected, (6e-7, 4e-6), strict=True):
        # Shares are within that, and a number times its share by so much of it.
        wide = within * (inner.double().abs().clamp(max=8) if mine is found[0] else 1)
        assert ((mine.double() - theirs).abs() <= half_a_unit(theirs) + wide).all()


def test_what_is_no_number_stays_so():
    inner = EVERY[EVERY.isnan()][:50]
    for found in learned(inner, torch.ones_like(inner)):
        assert found.isnan().all()
    infinite = torch.tensor([float("inf")]).bfloat16()
    assert torch.equal(gelu(infinite), infinite)


@pytest.mark.usefixtures("_vectors")
def test_the_one_of_answers_is_as_near_as_it_says(tmp_path):
    (source := tmp_path / "rough.cpp").write_text(ROUGH)
    rough = library(source).rough
    inner = torch.arange(-10, 10, 1 / 4096)
    found = inner.clone()
    rough(pointer(found), ctypes.c_int64(len(found)))
    away = (found.double() - functional.gelu(inner.double())).abs()
    near, far = (2e-6, 2.2e-4) if library(source).lanes() == 16 else (2e-5, 4e-4)
    assert away[inner.abs() < 3.87].max() < near
    assert away.max() < far
    others = torch.tensor([torch.inf, 0.0, -0.0, torch.nan] * 4)
    found = others.clone()
    rough(pointer(found), ctypes.c_int64(len(found)))
    assert torch.equal(found[:3], others[:3])
    assert torch.equal(found.isnan(), others.isnan())


@pytest.mark.parametrize("shape", [(1,), (0,), (3, 5), (17, 31), (4097,), (129, 256)])
def test_numbers_of_any_shape_learn_as_with_the_plain_one(shape):
    torch.manual_seed(0)
    inner, gradients = (torch.randn(shape).bfloat16() for _ in range(2))
    found = learned(inner, gradients)
    with without_native():
        assert not suits(inner)
        plain = learned(inner, gradients)
    for mine, theirs in zip(found, plain, strict=True):
        assert mine.shape == theirs.shape
        # Both are rounded: a unit at most lies between them.
        most = 2 * half_a_unit(theirs.double()) + 4e-6
        assert ((mine.double() - theirs.double()).abs() <= most).all()


def test_the_number_of_threads_changes_no_bit():
    inner = torch.randn(3 * 4096 + 7).bfloat16()
    threads = torch.get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            found.append(learned(inner, inner))
    finally:
        torch.set_num_threads(threads)
    for each in found[1:]:
        assert all(map(torch.equal, each, found[0]))


def test_gradients_that_do_not_lie_in_a_row_are_taken():
    inner = torch.randn(6, 40).bfloat16().requires_grad_()
    towards = torch.randn(40, 6).bfloat16().T
    gelu(inner).backward(towards)
    assert torch.equal(inner.grad, learned(inner.detach(), towards.contiguous())[1])


def test_a_layers_activation_is_made_by_it(monkeypatch):
    rows = torch.randn(3, 4).bfloat16()
    assert torch.equal(activate(rows, "gelu"), gelu(rows))
    asked = []
    monkeypatch.setattr(cpu_gelu, "_made", lambda name, inner: asked.append(name) or inner)
    activate(rows, "gelu")
    activate(rows.float(), "gelu")
    activate(rows, "gelu_tanh")
    activate(rows.T, "gelu")
    assert asked == ["gelu"]
