"""A C++ file of this package and how it is built -> where its library lies, and the library itself.

A wheel may carry libraries (`make wheel`); `compiler` makes the others. Neither torch nor a
compiler is known here.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import logging
import os
import platform
import re
import struct
import sys
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parent
"""Where headers lie that sources of several folders share."""
OPTIONS = ("-std=c++17", "-O3", "-shared", "-fPIC")
"""The compiler's for every source."""
_CARRIED = PACKAGE / "built"
"""What a wheel may carry: a folder for every build, in it a library of every source."""
_ELF_HEADER = struct.Struct("=40xQ10xHH2x")
"""Of 64 bits: where the section table begins, bytes of an entry, entries."""


@dataclass(frozen=True, kw_only=True)
class Build:
    """How a source is built, beside what holds for every one."""

    options: tuple[str, ...] = ()
    """The compiler's, without which the source is not what it should be."""
    instructions: tuple[str, ...] = ()
    """Options that an older compiler, which does not know them, builds without."""

    @property
    def name(self) -> str:
        """Of a folder: another one for whatever would be built otherwise."""
        return digest([*OPTIONS, *self.options, *self.instructions, platform.machine()])


def carries(build: Build) -> bool:
    """Whether this package came with libraries of such a build."""
    return sys.platform == "linux" and (_CARRIED / build.name).is_dir()


def carried(source: Path, build: Build) -> ctypes.CDLL | None:
    """The library that this package came with, of this very text and build; None without one.

    One that is there and does not load is told.
    """
    if not carries(build):
        return None
    place = _CARRIED / carried_name(source, build)
    if not place.exists():
        return None
    try:
        return _load(place)
    except OSError as error:
        logging.getLogger(__name__).warning("warning: a wheel's library is not used (%s)", error)
        return None


def carried_name(source: Path, build: Build) -> str:
    """Below the folder of all builds; another one for another text, as if from another version."""
    return f"{build.name}/{source.stem}-{digest(texts(source))}.so"


def library_at(place: Path) -> ctypes.CDLL | None:
    """The library that lies there; None where none does, or not all of one, or not for here."""
    with contextlib.suppress(OSError):
        return _load(place)
    return None


def texts(source: Path) -> list[str]:
    """Of a source and of all that it includes from this package, each once."""
    found: dict[Path, str] = {}
    places = [source]
    while places:
        place = places.pop()
        if place not in found:
            found[place] = place.read_text(encoding="utf-8")
            names = re.findall(r'^#include "(.+)"$', found[place], re.MULTILINE)
            beside = [place.parent / name for name in names]
            places += [each if each.exists() else PACKAGE / each.name for each in beside]
    return list(found.values())


def digest(parts: list[str]) -> str:
    """Another one for other parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _load(place: Path) -> ctypes.CDLL:
    if not _is_whole(place):
        raise OSError(f"{place}: its end is cut off")
    return ctypes.CDLL(str(place))


def _is_whole(path: Path) -> bool:
    """Whether nothing is cut off at the end of a library of 64 bits, where its section table is.

    The loader does not look, and a process that then calls into what is not there dies of it.
    Raises OSError where it cannot be read.
    """
    with path.open("rb") as file:
        header, size = file.read(_ELF_HEADER.size), os.fstat(file.fileno()).st_size
    if len(header) < _ELF_HEADER.size:
        return False
    table_start, entry_bytes, num_entries = _ELF_HEADER.unpack(header)
    return bool(table_start + entry_bytes * num_entries <= size)
