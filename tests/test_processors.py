from pathlib import Path

import pytest

import bertsmith
from bertsmith import libraries, processors
from bertsmith.processors import CARRIED, OPTIONS, build, carried
from tests.builds import NEEDS_COMPILER, forget_builds

SOURCES = sorted(Path(bertsmith.__file__).parent.rglob("*.cpp"))
HIDDEN_AMX = ("avx512_vnni", "avx512_bf16", "avx512_fp16")


@pytest.fixture(autouse=True)
def on_x86(monkeypatch, tmp_path):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(libraries, "_CARRIED", tmp_path / "built")
    monkeypatch.delenv("CXX", raising=False)
    forget_builds()
    yield
    forget_builds()


def carrying(monkeypatch, *these):
    """From now on as in a wheel for such processors."""
    names = [processors._exact(capability, has).name for capability, has in these]
    monkeypatch.setattr(processors, "carries", lambda it: it.name in names)


def instructions(has):
    return tuple(option for name, option in OPTIONS.items() if name in has)


@pytest.mark.parametrize(("capability", "has"), CARRIED)
def test_without_a_compiler_a_processor_of_the_list_takes_what_is_carried_for_it(
    capability, has, monkeypatch
):
    monkeypatch.setenv("PATH", "")
    carrying(monkeypatch, *CARRIED)
    found = build(capability, (*has, "avx512_bitalg", "sse4_1"))
    assert found == processors._exact(capability, has)
    assert found in carried(Path("model/cpu_norm.cpp"))
    assert found.instructions == instructions(has)


def test_without_a_compiler_another_processor_takes_the_most_that_it_can_run(monkeypatch):
    monkeypatch.setenv("PATH", "")
    carrying(monkeypatch, *CARRIED)
    without_bytes = ("avx512_bf16", "avx512_fp16", "amx_tile")
    assert build("AVX512", without_bytes).instructions == ()
    assert build("AVX512", (*without_bytes, "avx512_vnni")).instructions == instructions(HIDDEN_AMX)
    assert build("AVX512", ("avx512_vnni", "avx512_fp16")).instructions == ("-mavx512vnni",)


def test_of_other_vectors_nothing_is_taken(monkeypatch):
    monkeypatch.setenv("PATH", "")
    carrying(monkeypatch, ("AVX2", ()))
    found = build("AVX512", ())
    assert "-mavx512f" in found.options
    assert build("DEFAULT", ()).options[-1] == "-DVECTOR_BYTES=16"


@pytest.mark.parametrize("command", ["/bin/false", "/nonexistent/g++"])
def test_a_compiler_that_builds_nothing_is_none(command, monkeypatch):
    monkeypatch.setenv("CXX", command)
    carrying(monkeypatch, *CARRIED)
    assert build("AVX512", (*HIDDEN_AMX, "amx_tile")).instructions == instructions(HIDDEN_AMX)


def test_with_neither_wheel_nor_compiler_there_is_no_float16(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert OPTIONS["avx512_fp16"] not in build("AVX512", tuple(OPTIONS)).instructions


@NEEDS_COMPILER
def test_a_compiler_builds_for_a_processor_that_is_not_in_the_list(monkeypatch):
    carrying(monkeypatch, *CARRIED)
    has = ("avx512_bf16",)
    assert build("AVX512", has).instructions == ("-mavx512bf16",)


def test_a_wheel_that_carries_float16_asks_no_compiler_for_it(monkeypatch):
    carrying(monkeypatch, ("AVX512", HIDDEN_AMX))
    monkeypatch.setattr(processors, "_is_known", lambda _: pytest.fail("asked"))
    assert "-mavx512fp16" in build("AVX512", HIDDEN_AMX).instructions


def test_what_is_of_text_is_carried_once_and_all_else_for_every_processor():
    by_name = {source.name: carried(source) for source in SOURCES}
    [plain] = by_name.pop("fast_wordpiece.cpp")
    assert plain == libraries.Build()
    assert len(by_name) == 21
    assert all(len({each.name for each in builds}) == len(CARRIED) for builds in by_name.values())
