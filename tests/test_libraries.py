import ctypes

import pytest

from bertsmith import compiler, libraries
from bertsmith.compiler import library
from bertsmith.libraries import Build, carries
from tests.builds import NEEDS_COMPILER, forget_builds, in_a_cache_of_its_own

pytestmark = NEEDS_COMPILER

BUILD = Build(options=("-DFACTOR=2",), instructions=("-mavx2",))
TIMES = """
extern "C" int times(int number) { return FACTOR * number; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(libraries, "_CARRIED", tmp_path / "built")
    yield from in_a_cache_of_its_own(tmp_path, monkeypatch)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "times.cpp"
    path.write_text(TIMES)
    return path


@pytest.fixture
def carried(source, tmp_path):
    return compiler.carry(source, BUILD, tmp_path / "built")


def without_a_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    forget_builds()


def test_what_is_carried_needs_no_compiler_and_no_cache(source, carried, cache, monkeypatch):
    without_a_compiler(monkeypatch)
    assert carries(BUILD)
    assert library(source, BUILD)["times"](ctypes.c_int(21)) == 42
    assert not cache.exists()


def test_what_is_carried_is_taken_before_a_compiler_is_asked(source, carried, cache, monkeypatch):
    monkeypatch.setattr(compiler, "_built", lambda *_: pytest.fail("built"))
    assert library(source, BUILD) is not None
    assert not cache.exists()


def test_a_person_can_do_without_what_is_carried(source, carried, monkeypatch):
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    assert library(source, BUILD) is None


@pytest.mark.parametrize(
    "other",
    [
        Build(options=("-DFACTOR=3",), instructions=("-mavx2",)),
        Build(options=("-DFACTOR=2",), instructions=("-mavx2", "-mfma")),
        Build(options=("-DFACTOR=2",)),
    ],
)
def test_what_is_carried_for_another_build_is_not_taken(source, carried, other, monkeypatch):
    without_a_compiler(monkeypatch)
    assert not carries(other)
    assert library(source, other) is None


def test_what_is_carried_of_another_text_is_not_taken(source, carried, monkeypatch):
    source.write_text(TIMES.replace("FACTOR *", "1 + FACTOR *"))
    forget_builds()
    assert library(source, BUILD)["times"](ctypes.c_int(21)) == 43
    without_a_compiler(monkeypatch)
    assert library(source, BUILD) is None


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_carried_file_that_is_cut_is_told_and_passed_over(source, carried, share, caplog):
    whole = carried.read_bytes()
    carried.write_bytes(whole[: int(share * len(whole))])
    assert library(source, BUILD)["times"](ctypes.c_int(21)) == 42  # built here
    assert library(source, BUILD) is not None
    [told] = caplog.messages
    assert told == f"warning: a wheel's library is not used ({carried}: its end is cut off)"


def test_what_is_carried_is_not_for_the_processor_that_builds(source, tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "g++ -march=sapphirerapids")
    source.write_text("#ifdef __AMX_TILE__\n#error for one processor\n#endif\n" + TIMES)
    assert compiler.carry(source, BUILD, tmp_path / "built").exists()


def test_on_another_system_nothing_is_carried(carried, monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert not carries(BUILD)
