from dataclasses import replace

import pytest
import torch

from bertsmith import fusion
from bertsmith.fusion import fused, unfused
from bertsmith.model.config import sized
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from tests.model.plain import random_pretrain_batch

needs_compiler = pytest.mark.skipif(not fusion.is_available(), reason="no C++ compiler here")


# Kernels sum in another order and may fuse a multiplication with an addition. A mask drawn wrongly
# in one kernel only changes a gradient by about its own size.
TOLERANCES = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.05}


@pytest.mark.compiled
@needs_compiler
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_compiled_kernels_equal_the_plain_functions_with_dropout_in_values_and_gradients(dtype):
    config = replace(sized(2, 48, 4), vocab_size=60, max_position_embeddings=64)
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=0.2, seed=3)
    model.to(getattr(torch, dtype))
    for lengths in ([5, 30, 17, 17, 40], [20, 20], [64, 3, 9]):
        batch = random_pretrain_batch(lengths, 60)
        loss, gradients = loss_and_gradients(model, batch, plain=False)
        plain_loss, plain_gradients = loss_and_gradients(model, batch, plain=True)
        assert abs(loss - plain_loss) <= TOLERANCES[dtype] * abs(plain_loss)
        for name, gradient in plain_gradients.items():
            error = (gradients[name] - gradient).norm()
            assert error <= TOLERANCES[dtype] * gradient.norm(), name


def loss_and_gradients(model, batch, plain):
    model.zero_grad()
    with unfused(plain):
        losses = model(batch, (1, 7))
        losses.loss.backward()
    gradients = {name: p.grad.double() for name, p in model.named_parameters()}
    return losses.loss.item(), gradients


@pytest.mark.compiled
@needs_compiler
def test_one_kernel_serves_every_shape():
    compiled = fused(_doubled)
    frames = torch._dynamo.utils.counters["frames"]
    compiled(torch.randn(3, 5))
    before = frames["total"]
    for rows in range(4, 40, 7):
        assert torch.equal(compiled(torch.ones(rows, rows + 1)), torch.full((rows, rows + 1), 2.0))
    assert frames["total"] == before


def test_without_a_compiler_the_plain_function_runs(monkeypatch):
    monkeypatch.setattr(fusion, "is_available", lambda: False)
    monkeypatch.setattr(fusion, "_compiled", lambda _: pytest.fail("compiled all the same"))
    assert fused(_doubled)(torch.ones(1)).item() == 2.0


def test_unfused_holds_inside_the_block_only(monkeypatch):
    calls = []
    monkeypatch.setattr(fusion, "is_available", lambda: True)
    monkeypatch.setattr(fusion, "_compiled", lambda function: calls.append(function) or function)
    with unfused(False):  # the fixture's own unfused() is around this test
        fused(_doubled)(torch.ones(1))
    assert calls == []


@pytest.mark.parametrize(
    ("variable", "compiler", "expected"),
    [("0", "g++", False), ("1", "g++", True), ("1", None, False)],
)
def test_availability_follows_the_compiler_and_the_switch(
    monkeypatch, variable, compiler, expected
):
    fusion.is_available.cache_clear()
    monkeypatch.setenv("BERTSMITH_FUSION", variable)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(
        fusion.shutil, "which", lambda name: name if compiler and name == compiler else None
    )
    try:
        assert fusion.is_available() is expected
    finally:
        monkeypatch.undo()
        fusion.is_available.cache_clear()


def _doubled(rows: torch.Tensor) -> torch.Tensor:
    return rows + rows
