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
import time
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import IO

from bertsmith.libraries import (
    OPTIONS,
    PACKAGE,
    Build,
    carried,
    carried_name,
    digest,
    library_at,
    texts,
)

_LEFT_OUT: ContextVar[bool] = ContextVar("left_out", default=False)
_LOCK = threading.Lock()
_BUILD_SECONDS = 300  # the largest takes 12 where nothing else runs, and machines are shared
_MOST_WAITED_SECONDS = 2 * _BUILD_SECONDS
_SECONDS_BETWEEN_LOOKS = 0.1
_UNFINISHED = "building-"


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
    cache = _cache()
    try:
        name = f"{source.stem}-{_fingerprint(source, [*command, *build.instructions])}.so"
        if cache is not None:
            if library := library_at(cache / name):
                return library
            with contextlib.suppress(OSError), _alone(cache / name):  # nothing may be written there
                return library_at(cache / name) or _built(command, build, source, cache / name)
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
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=_UNFINISHED) as folder:
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


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """While no other process builds for the cache: one builds, the others find what it built.

    Who has waited for longer than a build takes, or has a disk without locks, waits no more. What a
    killed process left is removed. The lock is not that of `files`, of which no model knows.
    """
    import fcntl  # which Linux has

    with (place.parent / "lock").open("w", encoding="utf-8") as file:
        until = time.monotonic() + _MOST_WAITED_SECONDS
        while not _is_mine(file) and time.monotonic() < until and not library_at(place):
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        for unfinished in place.parent.glob(f"{_UNFINISHED}*"):
            if _age(unfinished) > _MOST_WAITED_SECONDS:
                shutil.rmtree(unfinished, ignore_errors=True)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # a forked process has the file open too
                fcntl.flock(file, fcntl.LOCK_UN)


def _is_mine(file: IO[str]) -> bool:
    """Whether nobody else has the lock, as far as the disk can tell."""
    import fcntl

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a disk without locks
        return True
    return True


def _age(folder: Path) -> float:
    """Seconds since something was put into it; none where it has gone."""
    with contextlib.suppress(OSError):
        return time.time() - folder.stat().st_mtime
    return 0.0


def _run(command: list[str], seconds: int | None = _BUILD_SECONDS) -> None:
    subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        timeout=seconds,
        env={**os.environ, "LC_ALL": "C"},  # complaints are read
    )


def _cache() -> Path | None:
    """A folder of this user alone, made if it is not there; None where none may be run from."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        parent = given if given.is_absolute() else Path("~/.cache").expanduser()
        folder = parent / "bertsmith"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
        if os.statvfs(folder).f_flag & os.ST_NOEXEC:
            return None
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022:  # or others could lay theirs
            return folder
    return None


def reason(error: Exception) -> str:
    """The one telling line of a compiler's complaint."""
    told = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        told = error.stderr.strip() or f"{error.cmd[0]} ended with status {error.returncode}"
    lines = [line.strip() for line in told.splitlines()]
    return next((line for line in lines if "error" in line), lines[0])
