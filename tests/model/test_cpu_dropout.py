"""The function of `cpu_dropout.cpp`, there and back: the bits of the definition."""

import pytest
import torch

from bertsmith.compiler import without_native
from bertsmith.model import elementwise
from bertsmith.model.cpu_dropout import suits
from bertsmith.model.elementwise import drop
from tests.builds import NEEDS_COMPILER, forget_builds, with_vectors_of

pytestmark = NEEDS_COMPILER
SHAPES = [(1, 1), (3, 7), (5, 16), (33, 100), (300, 129)]


def drawn(dtype, shape):
    generator = torch.Generator().manual_seed(shape[0])
    rows, gradients = (torch.randn(shape, generator=generator).to(dtype) for _ in range(2))
    words = torch.randint(-(2**31), 2**31, shape[:1], generator=generator).int()
    return rows, words, gradients


def learned(rows, words, probability, gradients):
    rows = rows.clone().requires_grad_()
    kept = drop(rows, words, probability)
    kept.backward(gradients)
    return kept.detach(), rows.grad


def assert_defined(dtype, shape, probability=0.1):
    rows, words, gradients = drawn(dtype, shape)
    found = learned(rows, words, probability, gradients)
    with without_native():
        expected = learned(rows, words, probability, gradients)
    assert all(torch.equal(*pair) for pair in zip(found, expected, strict=True))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9999])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_values_and_gradients_are_those_of_the_definition(dtype, shape, probability):
    assert_defined(dtype, shape, probability)


@pytest.mark.parametrize("vector_bytes", ["16", "32"])
def test_narrower_vectors_give_the_same(vector_bytes, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with_vectors_of(vector_bytes, monkeypatch)
    try:
        for dtype in (torch.float32, torch.bfloat16):
            assert_defined(dtype, (33, 100))
    finally:
        forget_builds()
    assert list(tmp_path.glob("bertsmith/cpu_dropout-*.so"))


def test_it_is_this_function_that_drops(monkeypatch):
    monkeypatch.setattr(elementwise, "_dropped", lambda *_: pytest.fail("by the definition"))
    rows, words, gradients = drawn(torch.float32, (40, 500))
    kept, back = learned(rows, words, 0.3, gradients)
    assert 0.27 < (kept == 0).float().mean() < 0.33
    assert torch.equal(kept == 0, back == 0)
    with torch.no_grad():
        assert torch.equal(drop(rows, words, 0.3), kept)
    assert torch.equal(drop(rows.T.contiguous().T, words, 0.3), kept)
    assert drop(rows, None, 0.3) is rows
    assert drop(rows, words, 0.0) is rows


@pytest.mark.usefixtures("two_threads")
def test_threads_change_no_bit():
    rows, words, gradients = drawn(torch.bfloat16, (300, 129))
    in_two = learned(rows, words, 0.1, gradients)
    torch.set_num_threads(1)
    in_one = learned(rows, words, 0.1, gradients)
    assert all(torch.equal(*pair) for pair in zip(in_two, in_one, strict=True))


def test_a_gradient_of_the_gradient_is_refused():
    rows, words, _ = drawn(torch.float32, (3, 7))
    rows.requires_grad_()
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(drop(rows, words, 0.1).square().sum(), rows, create_graph=True)


def test_what_it_does_not_take_is_left_to_the_definition():
    rows, words, _ = drawn(torch.float32, (3, 7))
    assert suits(rows, words)
    assert not suits(rows.double(), words)
    assert not suits(rows.half(), words)
    assert not suits(rows[0], words)
    assert not suits(rows[:0], words[:0])
    assert not suits(rows, words[:2])
    assert not suits(rows, words.long())
    assert not suits(rows.to("meta"), words)
    with without_native():
        assert not suits(rows, words)
