"""Sums over rows on a GPU: interpreted and compiled without one, and beside float64.

Needs torch, numpy, triton and pytest only, as tests of a GPU do.
"""

from __future__ import annotations

import importlib

import pytest
import torch

from benchmarks.gpu_instructions import TYPES, built
from bertsmith.model import gpu_sums
from tests.model.interpreted_sums import CASES, OfRows, by_place, errors, of_rows
from tests.model.triton_kernels import SHARED_BYTES, interpreted

pytest.importorskip("triton")

ON_A_GPU = [
    pytest.mark.gpu,
    pytest.mark.compiled,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]
KERNELS = {
    "sum_rows": ({}, gpu_sums.ROWS_TILE, gpu_sums.ROWS_OPTIONS),
    "sum_by_place": ({"WIDTH": 768}, gpu_sums.PLACES_TILE, gpu_sums.PLACES_OPTIONS),
}


@pytest.fixture(scope="module")
def found() -> list[list[float]]:
    """Errors, case by case."""
    return interpreted("tests.model.interpreted_sums")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[str(case) for case in CASES])
def test_sums_are_those_of_the_definition(found: list[list[float]], number: int) -> None:
    assert len(found) == len(CASES)
    assert len(found[number]) == (1 if isinstance(CASES[number], OfRows) else 2)
    assert all(error < 1e-6 for error in found[number])


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_for_gpus_that_are_not_here(capability: int, name: str) -> None:
    constants, tile, options = KERNELS[name]
    kernel = getattr(importlib.import_module("bertsmith.model.sum_kernels"), name)
    types = {**TYPES, "rows": "*fp32", "of_segments": "*fp32", "width": "i32"}
    types["num_sequences"] = "i32"
    compiled = built(kernel, capability, types, {**constants, **tile}, options)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]


class TestOnAGpu:
    pytestmark = ON_A_GPU

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_sums_are_those_of_the_definition(self, case: OfRows) -> None:
        assert all(error < 1e-6 for error in errors(case, "cuda"))

    @pytest.mark.parametrize("shape", [(3, 1056, 768), (264, 3072), (1, 52, 30528)])
    def test_each_is_rounded_once_and_always_alike(self, shape: tuple[int, ...]) -> None:
        ((expected, first),) = of_rows(shape, torch.bfloat16, "cuda")
        ((_, again),) = of_rows(shape, torch.bfloat16, "cuda")
        assert torch.equal(first, again)
        # Half a unit in the last place, and what a sum in float32 is away where it is near zero.
        within = expected.abs() * 2**-8 + 1e-4
        assert bool(((first.double() - expected).abs() <= within).all())

    def test_places_of_many_sequences_are_summed_always_alike(self) -> None:
        lengths = [128, 3, 90, 64] * 100
        first, again = (by_place(lengths, 768, 2, "cuda") for _ in range(2))
        for (expected, found), (_, other) in zip(first, again, strict=True):
            assert torch.equal(found, other)
            assert (found.double() - expected).norm() < 1e-6 * expected.norm()
