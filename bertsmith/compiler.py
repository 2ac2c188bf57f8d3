"""A C++ file of this package -> its functions, built once for all processes of a machine.

It asks for g++ alone (or what CXX names): no headers of Python's or torch's, no waiting for
torch.compile; and not even for that where the package was installed from a wheel that carries
what it needs, built (`make wheel`). What was built here lies in the user's cache under a name made
of all that it was built of and with, so another version, compiler or processor takes another. Where
it cannot be built, on another system than Linux, or with BERTSMITH_FUSION=0, there is no library,
and who asks does without. It knows no torch: who asks says for which instructions to build.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path

from bertsmith import library_cache
from bertsmith.libraries import (
    OPTIONS,
    PACKAGE,
    Build,
    carried,
    carried_name,
    carries,
    digest,
    library_at,
    texts,
)

_LEFT_OUT: ContextVar[bool] = ContextVar("left_out", default=False)
_LOCK = threading.Lock()
_TRIED: set[tuple[Path, Build]] = set()
"""What `build_together` was asked for before, in this process."""
_MOST_AT_ONCE = 4  # a compiler takes up to a gigabyte of memory
_BUILD_SECONDS = 300  # the largest takes 25 where nothing else runs, and machines are shared


@contextlib.contextmanager
def without_native(condition: bool = True) -> Iterator[None]:
    """Does without libraries inside the block, if `condition` holds."""
    token = _LEFT_OUT.set(condition or _LEFT_OUT.get())
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def library(source: Path, build: Build) -> ctypes.CDLL | None:
    """The built file, with all that it exports; None where there is none.

    Building takes some seconds, the first time on a machine. Says once why it failed, but not that
    there is no compiler.
    """
    return None if is_off() else loaded(source, build)


def is_off() -> bool:
    """Whether a person or a block does without libraries."""
    return _LEFT_OUT.get() or os.environ.get("BERTSMITH_FUSION", "1") == "0"


def loaded(source: Path, build: Build) -> ctypes.CDLL | None:
    """The built file, whatever was switched off since it was first asked for."""
    with _LOCK:
        return _loaded(source, build)


def build_together(sources: Iterable[Path], build: Build) -> None:
    """Builds those that are not there yet side by side, one a core, for who will ask for them all.

    One after the other would take as many times as long. Who asks for another meanwhile waits until
    all are there. What fails is built again, and told, when it is asked for, and not here.
    """
    if is_off() or carries(build) or not (command := _command(build)):
        return
    with _LOCK:
        asked = {each for each in sources if (each, build) not in _TRIED}
        _TRIED.update((each, build) for each in asked)
        cache = library_cache.folder() if len(asked) > 1 else None
        if cache is not None:
            with contextlib.suppress(OSError):  # nothing may be written there
                _build_missing(asked, command, build, cache)


def _build_missing(sources: Iterable[Path], command: list[str], build: Build, cache: Path) -> None:
    places = {each: cache / _name(each, command, build) for each in sources}

    def missing() -> list[Path]:
        return [each for each, place in places.items() if not place.exists()]

    if len(missing()) < 2:
        return
    at_once = min(len(os.sched_getaffinity(0)), _MOST_AT_ONCE)
    with library_cache.alone(cache, lambda: not missing()), ThreadPoolExecutor(at_once) as pool:
        for each in sorted(missing(), key=_length, reverse=True):
            pool.submit(_built, command, build, each, places[each])
        try:
            pool.shutdown()
        except BaseException:  # Ctrl-C ends it with what is being built
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _length(source: Path) -> int:
    """Of its text: what takes longest begins first."""
    return sum(map(len, texts(source)))


def is_there() -> bool:
    """Whether there is a compiler that builds."""
    return builds('extern "C" void nothing() {}', "-O0")


def carry(source: Path, build: Build, folder: Path) -> Path:
    """Builds a source as a wheel carries it -> where it lies, in a folder that stands for theirs.

    Raises what `subprocess.run` does where the compiler does not take all of the build's options.
    """
    place = folder / carried_name(source, build)
    place.parent.mkdir(parents=True, exist_ok=True)
    # Whatever CXX asks for: not for the processor that builds.
    options = [*build.instructions, "-march=x86-64", f"-I{PACKAGE}"]
    _run([*_command(build), *options, "-o", str(place), str(source)], seconds=None)
    return place


@functools.cache
def builds(text: str, option: str) -> bool:
    """Whether a compiler is there that makes a library of a text in C++ with an option."""
    if not (command := _command(Build())):
        return False
    try:
        with tempfile.TemporaryDirectory(prefix="bertsmith-") as folder:
            source = Path(folder) / "probe.cpp"
            source.write_text(text, encoding="utf-8")
            _run([*command, option, "-o", str(source.with_suffix(".so")), str(source)])
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@functools.cache
def _loaded(source: Path, build: Build) -> ctypes.CDLL | None:
    if library := carried(source, build):
        return library
    if not (command := _command(build)):
        return None
    cache = library_cache.folder()
    try:
        name = _name(source, command, build)
        if cache is not None:
            place = cache / name
            if library := library_at(place):
                return library
            # Nothing may be written there.
            with contextlib.suppress(OSError), library_cache.alone(cache, place.exists):
                return library_at(place) or _built(command, build, source, place)
        with tempfile.TemporaryDirectory(prefix="bertsmith-") as folder:
            return _built(command, build, source, Path(folder) / name)
    except (OSError, subprocess.SubprocessError) as error:
        _warn(reason(error))
        return None


@functools.cache
def _warn(why: str) -> None:
    """Once for one reason, which is often that of all sources."""
    logging.getLogger(__name__).warning(
        "warning: no functions in C++, so this is correct but slower: they need g++ (%s)", why
    )


def _command(build: Build) -> list[str]:
    """The compiler and its options; empty where there is none."""
    if sys.platform != "linux":
        return []
    try:
        found = shlex.split(os.environ.get("CXX", "")) or [shutil.which("g++") or ""]
    except ValueError as error:
        _warn(f"CXX={os.environ['CXX']}: {error}")
        return []
    return [*found, *OPTIONS, *build.options] if found[0] else []


def _name(source: Path, command: list[str], build: Build) -> str:
    """In the cache."""
    return f"{source.stem}-{_fingerprint(source, [*command, *build.instructions])}.so"


def _fingerprint(source: Path, command: list[str]) -> str:
    """Of all that decides what is built.

    A compiler's version is known by its file's time, and so is that of one that a wrapper calls
    (`ccache g++`).
    """
    programs = [Path(found).resolve() for word in command if (found := shutil.which(word))]
    made = [str(program.stat().st_mtime_ns) for program in programs]
    return digest([*texts(source), *command, *made, platform.machine(), *platform.libc_ver()])


def _built(command: list[str], build: Build, source: Path, place: Path) -> ctypes.CDLL:
    """Written under another name first: nobody ever loads half a library."""
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=library_cache.UNFINISHED) as folder:
        made = Path(folder) / place.name
        command = [*command, f"-I{PACKAGE}", "-o", str(made), str(source)]
        try:
            _run([*command, *build.instructions])
        except subprocess.CalledProcessError as error:
            told = re.sub("did you mean.*", "", error.stderr)  # which names options that it knows
            known = [option for option in build.instructions if option not in told]
            if len(known) == len(build.instructions):
                raise
            _run([*command, *known])  # it is too old to know the others
        found = ctypes.CDLL(str(made))
        with made.open("rb") as file:
            os.fsync(file.fileno())  # before its name: a power cut must not leave half of it
        made.replace(place)
    return found


def _run(command: list[str], seconds: int | None = _BUILD_SECONDS) -> None:
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C"},  # complaints are read
    )


def reason(error: Exception) -> str:
    """The one telling line of a compiler's complaint."""
    told = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        told = error.stderr.strip() or f"{error.cmd[0]} ended with status {error.returncode}"
    lines = [line.strip() for line in told.splitlines()]
    return next((line for line in lines if "error" in line), lines[0])
