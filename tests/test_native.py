import ctypes

import pytest
import torch

from bertsmith import native
from bertsmith.native import call, library
from tests.builds import NEEDS_COMPILER, forget_builds, in_a_cache_of_its_own, with_vectors_of

POWERS = """
#include "native.h"
extern "C" void powers_of_e(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += LANES) store(to + i, exponential(load(from + i)));
}
extern "C" void rough_powers_of_2(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += LANES) store(to + i, rough_power(load(from + i)));
}
extern "C" void powers_for_float(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += LANES)
    store(to + i, exponential_for<float>(load(from + i), 0.125f));
}
extern "C" void powers_for_bfloat16(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += LANES)
    store(to + i, exponential_for<uint16_t>(load(from + i), 0.125f));
}
"""
SOURCE = """
extern "C" int vector_bytes() { return VECTOR_BYTES; }
extern "C" float nothing_fp32(int num_threads) { return -1.0f; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    yield from in_a_cache_of_its_own(tmp_path, monkeypatch)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "nothing.cpp"
    path.write_text(SOURCE)
    return path


def test_instructions_beside_the_vectors_are_those_of_this_processor(monkeypatch):
    for capability in ("AVX512", "AVX2"):
        for has in (True, False):
            monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=capability: it)
            monkeypatch.setattr(torch.cpu, "get_capabilities", lambda it=has: {"avx512_bf16": it})
            forget_builds()
            expected = ("-mavx512bf16",) if has and capability == "AVX512" else ()
            assert native.build().instructions == expected


def test_vectors_are_those_that_torch_takes(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for capability, vector_bytes in (("AVX512", 64), ("AVX2", 32), ("DEFAULT", 16)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=capability: it)
        forget_builds()
        options = native.build().options
        assert f"-DVECTOR_BYTES={vector_bytes}" in options
        assert ("-mavx512f" in options) is (capability == "AVX512")
        assert ("-mfma" in options) is (capability != "DEFAULT")
        assert "-ffast-math" not in options
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    forget_builds()
    assert [option for option in native.build().options if option.startswith("-m")] == []
    assert "-DVECTOR_BYTES=16" in native.build().options


@NEEDS_COMPILER
def test_a_library_has_vectors_of_that_width(source, monkeypatch):
    for vector_bytes in ("64", "32", "16"):
        with_vectors_of(vector_bytes, monkeypatch)
        assert library(source)["vector_bytes"]() == int(vector_bytes)


@pytest.fixture(params=[None, "64", "32", "16"])
def powers(request, tmp_path, monkeypatch):
    """By this processor's own instructions, and by vectors of each width without them."""
    if request.param:
        with_vectors_of(request.param, monkeypatch)
    path = tmp_path / "powers.cpp"
    path.write_text(POWERS)
    return path


@NEEDS_COMPILER
def test_powers_are_as_near_as_they_say(powers):
    x = -torch.linspace(0.0, 87.0, 1 << 20)
    exact = made(powers, "powers_of_e", x).double()
    assert ((exact / x.double().exp() - 1).abs() <= 2.0**-22).all()
    whole = torch.arange(126.0)
    y = -torch.cat([torch.linspace(0.0, 125.99, 1 << 20), whole, whole + 1e-5, torch.tensor(
        [3e-8, 6e-8, 1e-20, 125.99999])])  # fmt: skip
    rough = made(powers, "rough_powers_of_2", y).double()
    error = (rough / y.double().exp2() - 1).abs().max()
    assert 1e-6 < error < 4e-6  # it is the rough one
    assert torch.equal(made(powers, "powers_for_float", 8 * x), exact.float())
    rough = made(powers, "powers_for_bfloat16", 8 * x).double()
    assert 1e-6 < (rough / x.double().exp() - 1).abs().max() < 1.2e-5  # products round, too


@NEEDS_COMPILER
def test_powers_at_their_ends(powers):
    """Of zero one, far below zero, of no number none."""
    ends = torch.tensor([0.0, -0.0, -126.0, -1e30, -torch.inf, torch.nan])
    for name in ("powers_of_e", "rough_powers_of_2"):
        found = made(powers, name, ends)
        assert found[:5].tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]
        assert found[5].isnan()


def made(source, name, numbers):
    """What a function makes of them."""
    count = -(-len(numbers) // 16) * 16
    given, to = torch.zeros(count), torch.empty(count)
    given[: len(numbers)] = numbers
    places = [ctypes.c_void_p(each.data_ptr()) for each in (given, to)]
    library(source)[name](places[0], ctypes.c_int64(count), places[1])
    return to[: len(numbers)]


@NEEDS_COMPILER
def test_a_function_that_finds_no_memory_is_an_error(source):
    assert library(source) is not None
    with pytest.raises(MemoryError, match="no memory to work in for nothing of 3 numbers"):
        call(source, "nothing", torch.zeros(3))


@NEEDS_COMPILER
def test_a_library_leaves_subnormal_numbers_as_they_are(source):
    """Some compilers' -ffast-math would change the arithmetic of the whole process."""
    assert library(source) is not None
    assert (torch.tensor([1e-40]) * 1.0).item() > 0.0
