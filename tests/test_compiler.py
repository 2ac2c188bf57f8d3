import ctypes
import errno
import logging
import os
import stat
import threading
import time

import pytest

from bertsmith import compiler, library_cache
from bertsmith.compiler import library, without_native
from bertsmith.libraries import Build
from tests.builds import NEEDS_COMPILER, forget_builds, in_a_cache_of_its_own

PLAIN = Build()

DOUBLED = """
extern "C" int doubled(int number) { return 2 * number; }
"""


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    yield from in_a_cache_of_its_own(tmp_path, monkeypatch)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "doubled.cpp"
    path.write_text(DOUBLED)
    return path


def in_the(cache):
    """What lies there beside the file that is locked while something is built."""
    return [each for each in cache.iterdir() if each.name != "lock"]


def doubles(source):
    return library(source, PLAIN)["doubled"](ctypes.c_int(21)) == 42


@NEEDS_COMPILER
def test_a_source_becomes_functions_and_is_built_once(source, cache, monkeypatch):
    assert doubles(source)
    [built] = in_the(cache)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    forget_builds()
    monkeypatch.setattr(compiler, "_built", lambda *_: pytest.fail("built twice"))
    assert doubles(source)
    assert in_the(cache) == [built]


@NEEDS_COMPILER
def test_threads_that_ask_together_build_once(source, monkeypatch):
    calls, built = [], compiler._built
    monkeypatch.setattr(compiler, "_built", lambda *given: [calls.append(1), built(*given)][1])
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(library(source, PLAIN) is not None))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4
    assert len(calls) == 1


@pytest.fixture
def sources(tmp_path):
    """Three, of which one is no C++."""
    found = [tmp_path / f"{name}.cpp" for name in ("one", "two", "broken")]
    for number, each in enumerate(found[:2]):
        each.write_text(f'extern "C" int number() {{ return {number}; }}')
    found[2].write_text("this is none")
    return found


@NEEDS_COMPILER
def test_sources_are_built_side_by_side_and_then_found(sources, cache, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    built, together = compiler._built, threading.Barrier(2, timeout=30)

    def both_at_once(*given):
        together.wait()
        return built(*given)

    monkeypatch.setattr(compiler, "_built", both_at_once)
    compiler.build_together(sources[:2], PLAIN)
    assert len(in_the(cache)) == 2
    again = []
    monkeypatch.setattr(compiler, "_built", lambda *given: again.append(given))
    compiler.build_together(sources[:2], PLAIN)
    forget_builds()
    compiler.build_together(sources[:2], PLAIN)
    assert again == []
    for number, each in enumerate(sources[:2]):
        assert library(each, PLAIN)["number"]() == number


@NEEDS_COMPILER
def test_one_that_cannot_be_built_is_told_when_it_is_asked_for(sources, cache, monkeypatch, caplog):
    tried, built = [], compiler._built
    monkeypatch.setattr(
        compiler, "_built", lambda *given: [tried.append(given[2]), built(*given)][1]
    )
    for _ in range(2):
        compiler.build_together(sources, PLAIN)
    assert sorted(tried) == sorted(sources)  # what failed is not tried here again
    assert len(in_the(cache)) == 2
    assert not caplog.records
    assert library(sources[2], PLAIN) is None
    assert "no functions in C++" in caplog.text


@NEEDS_COMPILER
def test_nothing_is_built_beforehand_for_who_does_without_or_asks_for_one(
    sources, cache, monkeypatch
):
    compiler.build_together(sources[:1], PLAIN)
    with without_native():
        compiler.build_together(sources, PLAIN)
    monkeypatch.setattr(compiler, "carries", lambda _: True)
    compiler.build_together(sources, PLAIN)
    assert not list(cache.glob("*.so"))


@NEEDS_COMPILER
def test_what_another_process_builds_is_waited_for_and_not_built_again(
    source, cache, monkeypatch, tmp_path
):
    assert doubles(source)
    [built] = in_the(cache)
    finished = built.rename(tmp_path / built.name)
    forget_builds()
    monkeypatch.setattr(compiler, "_built", lambda *_: pytest.fail("built twice"))
    found = []
    thread = threading.Thread(target=lambda: found.append(doubles(source)))
    with library_cache.alone(built.parent, built.exists):
        thread.start()
        thread.join(timeout=0.2)
        assert thread.is_alive()
        finished.rename(built)
    thread.join()
    assert found == [True]


@NEEDS_COMPILER
def test_who_has_waited_for_longer_than_a_build_takes_builds(source, cache, monkeypatch):
    """As beside a process that was stopped in mid-build."""
    assert doubles(source)
    [built] = in_the(cache)
    built.unlink()
    forget_builds()
    monkeypatch.setattr(library_cache, "_MOST_WAITED_SECONDS", 0.2)
    with library_cache.alone(cache, (cache / "another.so").exists):
        assert doubles(source)
    assert in_the(cache) == [built]


@NEEDS_COMPILER
def test_what_a_killed_build_left_is_removed_and_what_another_builds_is_not(source, cache):
    for name, age in (("building-left", 3_600), ("building-now", 0)):
        folder = cache / name
        folder.mkdir(parents=True)
        (folder / "half.so").write_bytes(b"half")
        os.utime(folder, (time.time() - age,) * 2)
    cache.chmod(0o700)
    assert doubles(source)
    assert sorted(each.suffix or each.name for each in in_the(cache)) == [".so", "building-now"]


@NEEDS_COMPILER
def test_where_nothing_may_be_run_from_the_cache_nothing_is_built_in_it(source, cache, monkeypatch):
    class Mounted:
        f_flag = os.ST_NOEXEC

    monkeypatch.setattr("os.statvfs", lambda _: Mounted)
    assert doubles(source)
    assert in_the(cache) == []


@NEEDS_COMPILER
def test_on_a_disk_without_locks_it_is_built_and_nothing_removed(source, cache, monkeypatch):
    (cache / "building-by-another").mkdir(parents=True)
    cache.chmod(0o700)

    def refused(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("fcntl.flock", refused)
    assert doubles(source)
    assert len(in_the(cache)) == 2


@NEEDS_COMPILER
def test_another_source_build_or_compiler_takes_another_library(
    source, cache, monkeypatch, tmp_path
):
    assert doubles(source)
    source.write_text(DOUBLED.replace("2 *", "FACTOR *"))
    for factor in (3, 4):
        other = Build(options=(f"-DFACTOR={factor}",))
        assert library(source, other)["doubled"](ctypes.c_int(5)) == 5 * factor
    forget_builds()
    more = Build(options=("-DFACTOR=3",), instructions=("-DMORE",))
    assert library(source, more) is not None
    script = tmp_path / "compiler"
    script.write_text('#!/bin/sh\nexec g++ "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -DIGNORED")  # with arguments, as `ccache g++` has
    forget_builds()
    assert library(source, more) is not None
    os.utime(script, (0, 0))
    forget_builds()
    assert library(source, more) is not None
    assert len(in_the(cache)) == 6
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\nexec "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"{wrapper} {script}")
    for seconds in (1, 2):  # another compiler behind the same wrapper
        os.utime(script, (seconds, seconds))
        forget_builds()
        assert library(source, more) is not None
    assert len(in_the(cache)) == 8


@NEEDS_COMPILER
def test_what_a_source_includes_is_part_of_it(source, cache):
    source.write_text('#include "other.h"\n' + DOUBLED.replace("2 *", "FACTOR *"))
    included = source.with_name("other.h")
    for factor in (2, 3):
        included.write_text(f'#include "native.h"\n#define FACTOR {factor}\n')
        forget_builds()
        assert (
            library(source, Build(options=("-DVECTOR_BYTES=16",)))["doubled"](ctypes.c_int(5))
            == 5 * factor
        )
    assert len(in_the(cache)) == 2


@NEEDS_COMPILER
def test_a_compiler_too_old_for_an_instruction_builds_without_it(source, monkeypatch, tmp_path):
    source.write_text(
        'extern "C" int has_it() {\n#ifdef __AVX512BF16__\nreturn 1;\n#else\nreturn 0;\n#endif\n}'
    )
    build = Build(instructions=("-mavx512bf16",))
    script = tmp_path / "compiler"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *-mavx512bf16*)'  # a library's name may hold bf16
        ' echo "error: unknown option -mavx512bf16" >&2; exit 1;; esac\n'
        'exec g++ "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert library(source, build)["has_it"]() == 0
    source.write_text("int broken = nonsense;")
    forget_builds()
    assert library(source, build) is None


@NEEDS_COMPILER
def test_an_option_that_an_older_compiler_only_hints_at_is_kept(source, monkeypatch, tmp_path):
    source.write_text('extern "C" int has_it() { return KNOWN; }')
    script = tmp_path / "compiler"
    hint = "error: unrecognized option -DNEWER; did you mean -DKNOWN=7?"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *NEWER*) echo "{hint}" >&2; exit 1;; esac\nexec g++ "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert library(source, Build(instructions=("-DKNOWN=7", "-DNEWER")))["has_it"]() == 7


@NEEDS_COMPILER
def test_a_compiler_that_was_killed_leaves_no_slower_library(source, cache, monkeypatch, tmp_path):
    build = Build(instructions=("-DMORE",))
    script = tmp_path / "compiler"
    script.write_text("#!/bin/sh\necho Killed >&2; exit 137\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert library(source, build) is None
    assert in_the(cache) == []


@NEEDS_COMPILER
def test_sources_that_do_not_build_are_told_once_with_their_reason(source, cache, caplog):
    source.write_text("int broken = nonsense;")
    other = source.with_name("other.cpp")
    other.write_text("int broken = nonsense;")
    with caplog.at_level(logging.WARNING):
        assert library(source, PLAIN) is None
        assert library(source, PLAIN) is None
    [record] = caplog.records
    assert "no functions in C++, so this is correct but slower" in record.getMessage()
    assert "nonsense" in record.getMessage()
    assert in_the(cache) == []


def test_a_compiler_that_is_not_there_is_told_once_for_all_sources(source, monkeypatch, caplog):
    monkeypatch.setenv("CXX", "/nowhere/g++")
    other = source.with_name("other.cpp")
    other.write_text(DOUBLED)
    with caplog.at_level(logging.WARNING):
        assert library(source, PLAIN) is None
        assert library(other, PLAIN) is None
    [record] = caplog.records
    assert "/nowhere/g++" in record.getMessage()


@NEEDS_COMPILER
def test_on_another_system_nothing_is_built(source, monkeypatch, caplog):
    monkeypatch.setattr("sys.platform", "darwin")
    with caplog.at_level(logging.WARNING):
        assert library(source, PLAIN) is None
        monkeypatch.delattr("os.ST_NOEXEC")  # which it may not have
        compiler.build_together([source, source.with_name("another.cpp")], PLAIN)
    assert not caplog.records


def test_on_a_system_without_users_or_with_a_command_that_is_none_nothing_is_built(
    source, cache, monkeypatch, caplog
):
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.delattr("os.getuid")
    assert library(source, PLAIN) is None
    compiler.build_together([source, source.with_name("another.cpp")], PLAIN)
    assert not cache.exists()
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("CXX", 'g++ "-O2')
    forget_builds()
    with caplog.at_level(logging.WARNING):
        assert library(source, PLAIN) is None
    assert 'CXX=g++ "-O2: No closing quotation' in caplog.text


def test_a_source_that_is_not_there_is_told(source, monkeypatch, caplog):
    """As in a bundle that holds Python's files alone."""
    monkeypatch.setenv("CXX", "g++")
    with caplog.at_level(logging.WARNING):
        assert library(source.with_name("absent.cpp"), PLAIN) is None
    assert "absent.cpp" in caplog.text


def test_without_a_compiler_there_is_no_library_and_no_word(source, monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    with caplog.at_level(logging.WARNING):
        assert library(source, PLAIN) is None
    assert not caplog.records


@NEEDS_COMPILER
def test_a_person_can_do_without(source, monkeypatch):
    assert library(source, PLAIN) is not None
    with without_native():
        assert library(source, PLAIN) is None
        with without_native(False):
            assert library(source, PLAIN) is None
    assert library(source, PLAIN) is not None
    monkeypatch.setenv("BERTSMITH_FUSION", "0")
    assert library(source, PLAIN) is None


@NEEDS_COMPILER
def test_a_cached_file_that_does_not_load_is_built_again(source, cache):
    assert doubles(source)
    [built] = in_the(cache)
    built.unlink()
    built.touch()
    forget_builds()
    assert doubles(source)
    assert built.stat().st_size > 0


@NEEDS_COMPILER
@pytest.mark.parametrize("share", [0.002, 0.2, 0.5, 0.9, 0.999])
def test_a_cached_file_that_is_cut_is_built_again(source, cache, share):
    """Loading it would end the process."""
    assert doubles(source)
    [built] = in_the(cache)
    whole = built.read_bytes()
    built.unlink()
    built.write_bytes(whole[: int(share * len(whole))])
    forget_builds()
    assert doubles(source)
    assert built.stat().st_size == len(whole)


@NEEDS_COMPILER
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


@NEEDS_COMPILER
def test_a_compiler_is_asked_whether_it_builds_a_text_with_an_option(monkeypatch):
    assert compiler.builds("int one() { return 1; }", "-O1")
    assert not compiler.builds("int one() { return 1; }", "-mno-such-instructions")
    assert not compiler.builds('void none() { asm("no such instruction"); }', "-O1")
    monkeypatch.setenv("CXX", "/no/such/compiler")
    forget_builds()
    assert not compiler.builds("int one() { return 1; }", "-O1")
    monkeypatch.setattr(compiler.sys, "platform", "win32")
    forget_builds()
    assert not compiler.builds("int one() { return 1; }", "-O1")
