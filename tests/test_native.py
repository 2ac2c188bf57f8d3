import ctypes
import logging
import os
import shutil
import stat
import threading

import pytest
import torch

from bertsmith import native
from bertsmith.native import call, library, without_native

needs_a_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no compiler here")

DOUBLED = """
extern "C" int doubled(int number) { return 2 * number; }
extern "C" int vector_bytes() { return VECTOR_BYTES; }
extern "C" float nothing_fp32(int num_threads) { return -1.0f; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache of this test's own, and nothing loaded before or kept after."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("BERTSMITH_FUSION", "1")
    monkeypatch.delenv("CXX", raising=False)
    forget()
    yield tmp_path / "cache" / "bertsmith"
    forget()


def forget():
    """As in another process."""
    native._loaded.cache_clear()
    native._warn.cache_clear()


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "doubled.cpp"
    path.write_text(DOUBLED)
    return path


def doubles(source):
    return library(source)["doubled"](ctypes.c_int(21)) == 42


@needs_a_compiler
def test_a_source_becomes_functions_and_is_built_once(source, cache, monkeypatch):
    assert doubles(source)
    [built] = cache.iterdir()
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    forget()
    monkeypatch.setattr(native, "_built", lambda *_: pytest.fail("built twice"))
    assert doubles(source)
    assert [*cache.iterdir()] == [built]


@needs_a_compiler
def test_threads_that_ask_together_build_once(source, monkeypatch):
    calls, built = [], native._built
    monkeypatch.setattr(native, "_built", lambda *given: [calls.append(1), built(*given)][1])
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(library(source) is not None)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert len(calls) == 1


@needs_a_compiler
def test_another_source_processor_or_compiler_takes_another_library(
    source, cache, monkeypatch, tmp_path
):
    assert doubles(source)
    source.write_text(DOUBLED.replace("2 *", "3 *"))
    forget()
    assert library(source)["doubled"](ctypes.c_int(5)) == 15
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "DEFAULT")
    forget()
    assert library(source)["vector_bytes"]() == 16
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", f"{compiler} -DIGNORED")  # with arguments, as `ccache g++` has
    forget()
    assert library(source)["vector_bytes"]() == 16
    os.utime(compiler, (0, 0))
    forget()
    assert library(source) is not None
    assert len([*cache.iterdir()]) == 5


@needs_a_compiler
def test_what_a_source_includes_is_part_of_it(source, cache):
    source.write_text('#include "other.h"\n' + DOUBLED.replace("2 *", "FACTOR *"))
    included = source.with_name("other.h")
    for factor in (2, 3):
        included.write_text(f'#include "native.h"\n#define FACTOR {factor}\n')
        forget()
        assert library(source)["doubled"](ctypes.c_int(5)) == 5 * factor
    assert len([*cache.iterdir()]) == 2


@needs_a_compiler
def test_a_compiler_too_old_for_an_instruction_builds_without_it(source, monkeypatch, tmp_path):
    source.write_text(
        'extern "C" int has_it() {\n#ifdef __AVX512BF16__\nreturn 1;\n#else\nreturn 0;\n#endif\n}'
    )
    monkeypatch.setattr(native, "_more", lambda: ["-mavx512bf16"])
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\ncase "$*" in *bf16*) echo "error: unknown option -mavx512bf16" >&2; exit 1;;'
        " esac\n"
        'exec g++ "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert library(source)["has_it"]() == 0
    source.write_text("int broken = nonsense;")
    forget()
    assert library(source) is None


@needs_a_compiler
def test_a_compiler_that_was_killed_leaves_no_slower_library(source, cache, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "_more", lambda: ["-DMORE"])
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho Killed >&2; exit 137\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    assert library(source) is None
    assert [*cache.iterdir()] == []


def test_instructions_beside_the_vectors_are_those_of_this_processor(monkeypatch):
    for capability in ("AVX512", "AVX2"):
        for has in (True, False):
            monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=capability: it)
            monkeypatch.setattr(torch.cpu, "get_capabilities", lambda it=has: {"avx512_bf16": it})
            expected = ["-mavx512bf16"] if has and capability == "AVX512" else []
            assert native._more() == expected


def test_vectors_are_those_that_torch_takes(monkeypatch):
    monkeypatch.setenv("CXX", "g++")
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for capability, vector_bytes in (("AVX512", 64), ("AVX2", 32), ("DEFAULT", 16)):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda it=capability: it)
        command = native._command()
        assert f"-DVECTOR_BYTES={vector_bytes}" in command
        assert ("-mavx512f" in command) is (capability == "AVX512")
        assert ("-mfma" in command) is (capability != "DEFAULT")
        assert "-ffast-math" not in command
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert [option for option in native._command() if option.startswith("-m")] == []
    assert "-DVECTOR_BYTES=16" in native._command()
    monkeypatch.setattr("sys.platform", "darwin")
    assert native._command() == []


@needs_a_compiler
def test_sources_that_do_not_build_are_told_once_with_their_reason(source, cache, caplog):
    source.write_text("int broken = nonsense;")
    other = source.with_name("other.cpp")
    other.write_text("int broken = nonsense;")
    with caplog.at_level(logging.WARNING):
        assert library(source) is None
        assert library(source) is None
    [record] = caplog.records
    assert "no functions in C++, so this is correct but slower" in record.getMessage()
    assert "nonsense" in record.getMessage()
    assert [*cache.iterdir()] == []


def test_a_compiler_that_is_not_there_is_told_once_for_all_sources(source, monkeypatch, caplog):
    monkeypatch.setenv("CXX", "/nowhere/g++")
    other = source.with_name("other.cpp")
    other.write_text(DOUBLED)
    with caplog.at_level(logging.WARNING):
        assert library(source) is None
        assert library(other) is None
    [record] = caplog.records
    assert "/nowhere/g++" in record.getMessage()


def test_a_source_that_is_not_there_is_told(source, monkeypatch, caplog):
    """As in a bundle that holds Python's files alone."""
    monkeypatch.setenv("CXX", "g++")
    with caplog.at_level(logging.WARNING):
        assert library(source.with_name("absent.cpp")) is None
    assert "absent.cpp" in caplog.text


def test_without_a_compiler_there_is_no_library_and_no_word(source, monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    with caplog.at_level(logging.WARNING):
        assert library(source) is None
    assert not caplog.records


@needs_a_compiler
def test_a_person_can_do_without(source, monkeypatch):
    assert library(source) is not None
    with without_native():
        assert library(source) is None
        with without_native(False):
            assert library(source) is None
    assert library(source) is not None
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    assert library(source) is None


@needs_a_compiler
def test_a_cached_file_that_does_not_load_is_built_again(source, cache):
    assert doubles(source)
    [built] = cache.iterdir()
    built.unlink()
    built.touch()
    forget()
    assert doubles(source)
    assert built.stat().st_size > 0


@needs_a_compiler
@pytest.mark.parametrize("kind", ["a file", "others may write", "no home"])
def test_without_a_folder_of_this_user_alone_it_is_built_for_this_process(
    source, monkeypatch, tmp_path, kind
):
    place = tmp_path / "place"
    if kind == "a file":
        place.touch()
    elif kind == "others may write":
        (place / "bertsmith").mkdir(parents=True)
        (place / "bertsmith").chmod(0o777)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative" if kind == "no home" else str(place))
    if kind == "no home":
        monkeypatch.setenv("HOME", "~nobody-at-all")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert doubles(source)
    assert not [*tmp_path.rglob("*.so")]  # the folder is gone, what was loaded is not


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
