"""A GPU's updates: interpreted and compiled without one, and beside their definition on one.

Needs torch, numpy, triton and pytest only, as tests of a GPU do.
"""

from __future__ import annotations

import pytest
import torch

from benchmarks.gpu_instructions import TYPES, built
from bertsmith.train import gpu_updates, updates
from bertsmith.train.gradient import Gradient
from bertsmith.train.updates import Flat, TensorRates, Update, Updates
from tests.model.triton_kernels import interpreted
from tests.train.interpreted_updates import CASES, RATES, flat_of

pytest.importorskip("triton")

POINTERS = {name: "*fp32" for name in ("weight", "exp_avg", "exp_avg_sq", "sums", "factor")}
NUMBERS = {name: "fp32" for name in RATES._fields}
KERNEL_TYPES = {**TYPES, **POINTERS, **NUMBERS, "num_lines": "i32"}


@pytest.fixture(scope="module")
def errors() -> list[list[float]]:
    """Of norm, weights and moments, case by case."""
    return interpreted("tests.train.interpreted_updates")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_updates_are_those_of_the_definition(errors: list[list[float]], number: int) -> None:
    assert len(errors) == len(CASES)
    assert len(errors[number]) == 4
    assert all(error < 5e-7 for error in errors[number])


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", ["squares", "adam"])
def test_kernels_compile_for_gpus_that_are_not_here(capability: int, name: str) -> None:
    from bertsmith.train import update_kernels

    tile = {"squares": gpu_updates.SQUARES_TILE, "adam": gpu_updates.ADAM_TILE}[name]
    kernel = getattr(update_kernels, name)
    for rest in (0, 5):
        constants = {"REST": rest, **tile}
        compiled = built(kernel, capability, KERNEL_TYPES, constants, gpu_updates.OPTIONS)
        assert compiled.asm["cubin"]
        is_by_lines = "ld.global.v4.b32" in compiled.asm["ptx"]
        assert is_by_lines == (rest == 0), "whole lines are read at once"


def test_other_devices_and_types_are_left_to_the_definition() -> None:
    assert not gpu_updates.suits(torch.zeros(3), torch.zeros(3))


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [2, 1000, 3_000_001])
def test_on_a_gpu_they_are_those_of_the_definition(count: int, dtype: torch.dtype) -> None:
    given, gradient = flat_of(count, dtype)
    flat = Flat(*(None if each is None else each.cuda() for each in given))
    exact = Flat(*(each.cuda().double() for each in given[:3]), None)
    gradient = gradient.cuda()
    taken = Updates([Update(flat, Gradient([gradient]), RATES)])
    expected = gradient.double().square().sum()
    assert abs(taken.squared_norm().double() - expected) <= 1e-5 * expected
    factor = torch.tensor(0.7, device="cuda")
    taken.take(factor)
    rates = TensorRates.of(RATES, factor.double())
    updates.adam_in_one_pass(exact, gradient.double(), rates)
    for one, other in zip(exact[:3], flat[:3], strict=True):
        assert (other.double() - one).abs().max() <= 1e-6 * one.abs().max()
    assert flat.copy is None or torch.equal(flat.copy, flat.weight.to(dtype))
