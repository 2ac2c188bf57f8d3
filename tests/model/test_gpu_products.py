"""Products with GELU in them: interpreted and compiled without a GPU, and beside operators on one.

Needs torch, numpy, triton and pytest only, as tests of a GPU do.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch.nn import functional

from benchmarks.gpu_instructions import built, registers_and_spilled_bytes
from bertsmith import gpu_kernels
from bertsmith.model import gpu_products
from tests.model.interpreted_products import NUM_ROWS
from tests.model.triton_kernels import IS_HOPPER, interpreted

pytest.importorskip("triton")

SHARED_BYTES = 227 * 1024
"""Of a Hopper GPU's multiprocessor."""
REGISTERS = 65_536
"""Of one too."""


def test_products_and_sums_are_those_of_operators_and_so_is_a_layer() -> None:
    errors = interpreted("tests.model.interpreted_products")
    assert [len(each) for each in errors] == [4] * len(NUM_ROWS) + [15]
    for of_products in errors[:-1]:
        assert all(error < 1e-6 for error in of_products)  # of float32; none is NaN
    assert all(error < 2e-5 for error in errors[-1])


class Case(NamedTuple):
    """A kernel, how it is launched, and which of its tile's sizes each matrix has."""

    name: str
    tile: dict[str, int]
    options: dict[str, int]
    matrices: dict[str, tuple[int, int]]


def cases() -> list[Case]:
    up, back = gpu_products.UP_TILE, gpu_products.BACK_TILE
    half = (up["ROWS"], up["COLUMNS"] // 2)
    of_up = {
        "states": (up["ROWS"], up["DEPTH"]),
        "weight": (up["COLUMNS"], up["DEPTH"]),
        "inner": half,
        "active": half,
    }
    whole = (back["ROWS"], back["COLUMNS"])
    of_back = {
        "gradient": (back["ROWS"], back["DEPTH"]),
        "weight": (back["DEPTH"], back["COLUMNS"]),
        "inner": whole,
        "grad_inner": whole,
    }
    return [
        Case("up_and_gelu", up, gpu_products.UP_OPTIONS, of_up),
        Case("down_backward", back, gpu_products.BACK_OPTIONS, of_back),
    ]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(("hidden", "width"), [(768, 3072), (1024, 4096)])
@pytest.mark.parametrize("case", cases(), ids=[case.name for case in cases()])
def test_two_programs_of_a_hopper_gpu_fit_and_spill_nothing(
    case: Case, hidden: int, width: int, dtype: str
) -> None:
    from bertsmith.model import product_kernels

    types = {"bias": f"*{dtype}", "totals": "*fp32", "num_rows": "i32"}
    for name, (rows, columns) in case.matrices.items():
        types[name] = f"tensordesc<{dtype}[{rows},{columns}]>"
    constants = {"HIDDEN": hidden, "WIDTH": width, **case.tile}
    compiled = built(getattr(product_kernels, case.name), 90, types, constants, case.options)
    assert 2 * compiled.metadata.shared <= SHARED_BYTES
    assert "wgmma" in compiled.asm["ptx"]
    assert "cp.async.bulk.tensor" in compiled.asm["ptx"]  # a tile, by its descriptor
    assert compiled.metadata.global_scratch_size == 0  # for which Triton asks for memory
    registers, spilled = registers_and_spilled_bytes(compiled.asm["ptx"], 90)
    assert 2 * registers * 32 * case.options["num_warps"] <= REGISTERS
    assert spilled == 0


@pytest.fixture
def _is_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_kernels, "run_on", lambda device: True)
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: (9, 0))


def given(
    num_rows: int = 4096, hidden: int = 64, width: int = 128, dtype: torch.dtype = torch.bfloat16
) -> list[torch.Tensor]:
    """States, weight and bias."""
    shapes = [(num_rows, hidden), (width, hidden), (width,)]
    return [torch.zeros(shape, dtype=dtype) for shape in shapes]


def test_on_a_cpu_the_operators_remain() -> None:
    assert not gpu_products.suits(*given())


@pytest.mark.usefixtures("_is_hopper")
def test_few_rows_and_odd_ones_and_other_types_remain_with_operators() -> None:
    suits = gpu_products.suits
    states, weight, bias = given()
    assert suits(states, weight, bias)
    assert suits(*given(num_rows=5003, hidden=192, width=640, dtype=torch.float16))
    assert not suits(*given(num_rows=4095))
    assert not suits(*given(hidden=96))
    assert not suits(*given(width=192))
    assert not suits(*given(dtype=torch.float32))
    assert not suits(states, weight, bias.float())
    assert not suits(states, weight.half(), bias)
    assert not suits(states, torch.zeros(64, 128, dtype=torch.bfloat16).t(), bias)
    odd = torch.zeros(states.numel() + 1, dtype=torch.bfloat16)[1:].view_as(states)
    assert not suits(odd, weight, bias)


@pytest.mark.usefixtures("_is_hopper")
@pytest.mark.parametrize("capability", [(8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_gpus_remain_with_operators(
    capability: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda device: capability)
    assert not gpu_products.suits(*given())


def test_tiles_of_another_size_are_another_kernel() -> None:
    matrix = torch.zeros(128, 64)
    found = [gpu_kernels._kind(gpu_kernels.Tiled(matrix, (64, side))) for side in (32, 64)]
    assert found[0] != found[1] != gpu_kernels._kind(matrix)


@pytest.mark.gpu
@pytest.mark.compiled
@pytest.mark.skipif(not IS_HOPPER, reason="no Hopper GPU here")
@pytest.mark.parametrize("num_rows", [4096, 5000])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_on_a_gpu_they_are_those_of_operators(dtype: torch.dtype, num_rows: int) -> None:
    generator = torch.Generator("cuda").manual_seed(num_rows)

    def drawn(*shape: int) -> torch.Tensor:
        """With something behind it that nobody may read."""
        room = torch.full((shape[0] + 128, *shape[1:]), torch.nan, device="cuda", dtype=dtype)
        return room[: shape[0]].normal_(generator=generator)

    states, gradient, bias = drawn(num_rows, 768), drawn(num_rows, 768), drawn(3072)
    up, down = drawn(3072, 768).mul_(0.04), drawn(768, 3072).mul_(0.04)
    assert gpu_products.suits(states, up, bias)
    inner, active = gpu_products.up_and_gelu(states, up, bias)
    assert gpu_products.suits(gradient, down, inner)
    found = [inner, active, *gpu_products.down_backward(gradient, down, inner)]
    rounded = inner.double().requires_grad_()
    expected = [functional.linear(states.double(), up.double(), bias.double())]
    expected += [functional.gelu(rounded)]
    expected[1].backward(gradient.double() @ down.double())
    assert rounded.grad is not None
    expected += [rounded.grad, rounded.grad.sum(0)]
    within = torch.finfo(dtype).eps / 2  # each is rounded once
    for one, other in zip(expected, found, strict=True):
        assert (other.double() - one).norm() <= within * one.norm()
    again = gpu_products.up_and_gelu(states, up, bias)
    again += gpu_products.down_backward(gradient, down, again[0])
    assert all(map(torch.equal, found, again))
