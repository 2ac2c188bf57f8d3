import shutil

import pytest
import torch

from bertsmith import native
from bertsmith.native import call, library
from tests.builds import forget_builds, in_a_cache_of_its_own, with_vectors_of

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")

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


@needs_a_compiler
def test_a_library_has_vectors_of_that_width(source, monkeypatch):
    for vector_bytes in ("64", "32", "16"):
        with_vectors_of(vector_bytes, monkeypatch)
        assert library(source)["vector_bytes"]() == int(vector_bytes)


@needs_a_compiler
def test_a_function_that_finds_no_memory_is_an_error(source):
    assert library(source) is not None
    with pytest.raises(MemoryError, match="no memory to work in for nothing of 3 numbers"):
        call(source, "nothing", torch.zeros(3))


@needs_a_compiler
def test_a_library_leaves_subnormal_numbers_as_they_are(source):
    """Some compilers' -ffast-math would change the arithmetic of the whole process."""
    assert library(source) is not None
    assert (torch.tensor([1e-40]) * 1.0).item() > 0.0
