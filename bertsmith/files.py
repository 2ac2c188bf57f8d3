"""Bytes -> disk, safely: atomic writes, checksums, a lock, on every platform.

A reader never sees half a file: everything is written beside its place, flushed to the disk, and
renamed. It does not know what the bytes mean.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

_MOVED_ASIDE = ".old.part"
"""How the folder is named that holds an older directory while a newer one takes its place."""

_LOCK = ".lock"
_TRIES, _SECONDS_BETWEEN_TRIES = 100, 0.01

_HELD = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)  # what POSIX and Windows answer

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)


class InUseError(RuntimeError):
    """Another process holds the directory."""


class DamagedError(ValueError):
    """A file holds other bytes than were written there, or not all of them."""


@contextlib.contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file that takes `path`'s place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    temporary = Path(name)
    try:
        with naming(path), os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
        sync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Gives the name of what is being written to an OSError of a full disk that names no file."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file atomically."""
    with atomic_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Writes UTF-8 text atomically, line ends as given."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Writes JSON, indented, keys in the order given, with a final newline."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def read_json(path: Path) -> dict[str, object]:
    """The JSON object in a file. Raises DamagedError, naming it, where it holds none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise DamagedError(f"{path} holds a {type(value).__name__}, expected a JSON object")
    return value


@contextlib.contextmanager
def atomic_directory(path: Path) -> Iterator[Path]:
    """Yields an empty directory beside `path` that takes its place when the block ends well.

    An older directory at `path` is moved aside first and deleted after the swap, so at every moment
    one whole version exists. Where a process was killed in between, the older one is put back by
    the next writer of `path`, or by `remove_leftovers`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for moved_aside in path.parent.glob(f".{glob.escape(path.name)}.*{_MOVED_ASIDE}"):
        _put_back(moved_aside)
    temporary = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part"))
    try:
        with naming(path):
            yield temporary
            for file in temporary.rglob("*"):
                if file.is_file():
                    file.chmod(0o644)  # some libraries write files that only their owner may read
                    _sync_file(file)
        sync_directory(temporary)
        temporary.chmod(0o755)
        _swap(temporary, path)
        sync_directory(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def sha256(path: Path) -> str:
    """The file's SHA-256 in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Holds `path` as a lock file for the block; released by the system if the process dies.

    Raises InUseError at once when another process holds it, OSError where the disk has no locks.
    """
    with _locked(path)[0]:
        yield


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Holds a directory, made where it is missing, by the lock file `.lock` in it.

    Where the block fails and nothing was written, what was made for the lock is taken away again.
    Raises as `lock` does.
    """
    path = directory / _LOCK
    file, made = _locked(path)
    with file:
        try:
            yield
        except BaseException:
            if path in made and list(directory.iterdir()) == [path]:
                with contextlib.suppress(OSError):  # Windows deletes no open file
                    path.unlink()
                    for place in made[1:]:
                        place.rmdir()
            raise


def sync_directory(path: Path) -> None:
    """Makes renames in a directory durable; does nothing where the platform cannot."""
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(directory: Path) -> None:
    """Deletes the temporary files and directories that a killed process left in `directory`.

    A whole directory that it had moved aside, and not replaced yet, is put back.
    """
    for leftover in directory.glob(".*.part"):
        if leftover.name.endswith(_MOVED_ASIDE):
            _put_back(leftover)
        elif leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def peak_memory_bytes() -> int:
    """The most memory this process has held so far; 0 where the platform does not say."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def forget_peak_memory() -> bool:
    """Lets `peak_memory_bytes` begin at what is held now; False where the platform cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _locked(path: Path) -> tuple[IO[bytes], list[Path]]:
    """The lock file, held, and what was made for it, folders too.

    What its holder took away between our opening it and its end locks nobody out: another is made.
    """
    for _ in range(_TRIES):
        made = [place for place in (path, *path.parents) if not place.exists()]
        file = _opened(path)
        if file is None:
            continue
        try:
            _hold(file, path)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    return file, made
        except BaseException:
            file.close()
            raise
        file.close()
    raise OSError(errno.EAGAIN, "the lock file is taken away again and again", str(path))


def _opened(path: Path) -> IO[bytes] | None:
    """The file, in a folder that is made where it is missing; None where that has just gone."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("a+b")
    except (FileNotFoundError, FileExistsError):
        if path.parent.is_file():
            raise
        time.sleep(_SECONDS_BETWEEN_TRIES)
        return None


def _hold(file: IO[bytes], path: Path) -> None:
    try:
        _lock_file(file)
    except OSError as error:
        if error.errno not in _HELD:
            why = f"the file cannot be locked ({error.strerror}); choose a disk with file locks"
            raise OSError(error.errno, why, str(path)) from error
        raise InUseError(
            f"{path.parent} is in use by another bertsmith process (lock {path}); wait for "
            f"it to end or choose another directory"
        ) from error


def _sync_file(path: Path) -> None:
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _swap(new: Path, path: Path) -> None:
    if not path.exists():
        new.replace(path)
        return
    old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.", suffix=_MOVED_ASIDE))
    try:
        path.replace(old / path.name)
        new.replace(path)
    finally:
        _put_back(old)


def _put_back(moved_aside: Path) -> None:
    """Returns the directory inside to its place, unless a newer one took it; deletes the rest."""
    for older in moved_aside.iterdir():
        place = moved_aside.parent / older.name
        if not place.exists():
            older.replace(place)
            sync_directory(place.parent)
    shutil.rmtree(moved_aside, ignore_errors=True)


def _lock_file(file: IO[bytes]) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
