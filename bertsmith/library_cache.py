"""The user's cache of libraries: where it is, and one process at a time that builds for it.

It knows neither sources nor a compiler.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

UNFINISHED = "building-"
"""How folders begin of which something is being built."""
_MOST_WAITED_SECONDS = 600
"""Twice what a build may take."""
_SECONDS_BETWEEN_LOOKS = 0.1


def folder() -> Path | None:
    """A folder of this user alone, made if it is not there; None where none may be run from."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        parent = given if given.is_absolute() else Path("~/.cache").expanduser()
        found = parent / "bertsmith"
        found.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = found.stat()
        if os.statvfs(found).f_flag & os.ST_NOEXEC:
            return None
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022:  # or others could lay theirs
            return found
    return None


@contextlib.contextmanager
def alone(cache: Path, is_built: Callable[[], bool]) -> Iterator[None]:
    """While no other process builds for the cache: one builds, the others find what it built.

    Who finds it, has waited for longer than a build takes, or has a disk without locks, waits no
    more. What a killed process left is removed. The lock is not that of `files`, of which no model
    knows.
    """
    import fcntl  # which Linux has

    with (cache / "lock").open("w", encoding="utf-8") as file:
        until = time.monotonic() + _MOST_WAITED_SECONDS
        while not _is_mine(file) and time.monotonic() < until and not is_built():
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        for unfinished in cache.glob(f"{UNFINISHED}*"):
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


def _age(place: Path) -> float:
    """Seconds since something was put into it; none where it has gone."""
    with contextlib.suppress(OSError):
        return time.time() - place.stat().st_mtime
    return 0.0
