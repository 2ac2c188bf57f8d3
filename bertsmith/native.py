"""A C++ file of this package -> its functions, built for this processor, once for all processes.

It asks for g++ alone (or what CXX names): no headers of Python's or torch's, no waiting for
torch.compile. What was built lies in the user's cache under a name made of all that it was built
of and with, so another version, compiler or processor takes another. Where it cannot be built, on
another system than Linux, or with BERTSMITH_FUSION=0, there is no library, and who asks does
without. It knows no model.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
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
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import torch
from torch import Tensor, nn

HEADER = Path(__file__).with_suffix(".h")
"""What the sources share."""
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
"""How the functions for numbers of a type are named, behind the name of what they do."""

_LEFT_OUT: ContextVar[bool] = ContextVar("left_out", default=False)
_LOCK = threading.Lock()

_OPTIONS = (
    *("-std=c++17", "-O3", "-fopenmp", "-shared", "-fPIC"),
    *("-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno"),
)
"""Not -ffast-math: it would change the order of sums that are exact only in theirs, and with some
compilers make a zero of every subnormal number of the whole process."""
_X86 = {
    "AVX512": ("64", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mavx2", "-mfma"),
    "AVX2": ("32", "-mavx2", "-mfma"),
}
"""Bytes of a vector, and the instructions that have it, by what torch takes this processor for."""
_MORE = {"avx512_bf16": "-mavx512bf16", "avx512_vnni": "-mavx512vnni"}
"""Instructions that one processor with these vectors has and another one not, by torch's name for
them; compilers that do not know them build without."""
_BUILD_SECONDS = 120


@contextlib.contextmanager
def without_native(condition: bool = True) -> Iterator[None]:
    """Does without libraries inside the block, if `condition` holds."""
    token = _LEFT_OUT.set(condition or _LEFT_OUT.get())
    try:
        yield
    finally:
        _LEFT_OUT.reset(token)


def library(source: Path) -> ctypes.CDLL | None:
    """The built file, with all that it exports; None where there is none.

    Building takes some seconds, the first time on a machine. Says once why it failed, but not that
    there is no compiler.
    """
    if _LEFT_OUT.get() or os.environ.get("BERTSMITH_FUSION", "1") == "0":
        return None
    with _LOCK:
        return _loaded(source)


def takes(source: Path, *tensors: Tensor) -> bool:
    """Whether tensors are such that the source has functions for them, and it is there.

    They must hold numbers of one type in a CPU's memory: no stand-ins, with which a model is traced
    or transformed.
    """
    return (
        all(type(each) in (Tensor, nn.Parameter) for each in tensors)
        and all(each.device.type == "cpu" for each in tensors)
        and tensors[0].dtype in TYPES
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]
        and library(source) is not None
    )


def call(source: Path, name: str, numbers: Tensor, *arguments: object) -> float:
    """Calls the source's function of that name for numbers of that type.

    What `takes` has promised holds, whatever was switched off since. Raises MemoryError where the
    function found no room to work in.
    """
    found = _loaded(source)
    assert found is not None
    function = found[f"{name}_{TYPES[numbers.dtype]}"]
    function.restype = ctypes.c_float
    result: float = function(*arguments, ctypes.c_int(torch.get_num_threads()))
    if result < 0.0:
        raise MemoryError(f"no memory to work in for {name} of {numbers.numel():,} numbers")
    return result


def has_fast_products(source: Path, numbers: Tensor, *, of_bytes: bool = False) -> bool:
    """Whether the source's own products beside such numbers are at least level with torch's.

    As measured: with AMX torch's of bfloat16 are several times as fast, and those of eight bits are
    taken to be; and what was built must have the instruction for them. Where no build could have
    it, none is made.
    """
    has = torch.cpu.get_capabilities()
    better = "amx_bf16" if numbers.dtype == torch.bfloat16 else ""
    if has.get("amx_int8" if of_bytes else better):
        return False
    can_have = not of_bytes or _MORE["avx512_vnni"] in _more()
    return can_have and takes(source, numbers) and call(source, "multiplies", numbers) == 1.0


def bf16_instructions() -> str:
    """Of those that choose between products of bfloat16, which this processor has, or `none`."""
    has = torch.cpu.get_capabilities()
    return " ".join(name for name in ("avx512_bf16", "amx_bf16") if has.get(name)) or "none"


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Where its numbers lie, one behind the other; null for none."""
    assert tensor is None or tensor.is_contiguous()
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


@functools.cache
def _loaded(source: Path) -> ctypes.CDLL | None:
    command, cache = _command(), _cache()
    if not command:
        return None
    try:
        name = f"{source.stem}-{_fingerprint(source, command)}.so"
        if cache is not None:
            with contextlib.suppress(OSError):  # not there, or not for this system
                return ctypes.CDLL(str(cache / name))
            with contextlib.suppress(OSError):  # nothing may be written to it or run from it
                return _built(command, source, cache / name)
        with tempfile.TemporaryDirectory(prefix="bertsmith-") as folder:
            return _built(command, source, Path(folder) / name)
    except (OSError, subprocess.SubprocessError) as error:
        _warn(_reason(error))
        return None


@functools.cache
def _warn(reason: str) -> None:
    """Once for one reason, which is often that of all sources."""
    logging.getLogger(__name__).warning(
        "warning: no functions in C++, so this is correct but slower: they need g++ (%s)", reason
    )


def _command() -> list[str]:
    """The compiler and its options; empty where there is none."""
    found = shlex.split(os.environ.get("CXX", "")) or [shutil.which("g++") or ""]
    if sys.platform != "linux" or not found[0]:
        return []
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    capability = torch.backends.cpu.get_cpu_capability()
    vector_bytes, *instructions = _X86.get(capability, ("16",)) if is_x86 else ("16",)
    return [*found, *_OPTIONS, *instructions, f"-DVECTOR_BYTES={vector_bytes}"]


def _more() -> list[str]:
    """Options for what else this processor has."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return []
    has = torch.cpu.get_capabilities()
    return [option for name, option in _MORE.items() if has.get(name)]


def _texts(source: Path) -> list[str]:
    """Of a source and of all that it includes from this package."""
    text = source.read_text(encoding="utf-8")
    names = re.findall(r'^#include "(.+)"$', text, re.MULTILINE)
    beside = [source.parent / name for name in names]
    places = [place if place.exists() else HEADER for place in beside]
    return [text, *(each for place in places for each in _texts(place))]


def _fingerprint(source: Path, command: list[str]) -> str:
    """Of all that decides what is built, the compiler's own version by its file's time."""
    compiler = Path(shutil.which(command[0]) or command[0]).resolve()
    made = compiler.stat().st_mtime_ns if compiler.exists() else 0
    parts = [*_texts(source), *command, *_more(), str(made), platform.machine()]
    parts += platform.libc_ver()
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _built(command: list[str], source: Path, place: Path) -> ctypes.CDLL:
    """Written under another name first: nobody ever loads half a library."""
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        made = Path(folder) / place.name
        command = [*command, f"-I{HEADER.parent}", "-o", str(made), str(source)]
        try:
            _run([*command, *_more()])
        except subprocess.CalledProcessError as error:
            known = [option for option in _more() if option not in error.stderr]
            if known == _more():
                raise
            _run([*command, *known])  # it is too old to know the others
        found = ctypes.CDLL(str(made))
        made.replace(place)
    return found


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=_BUILD_SECONDS)


def _cache() -> Path | None:
    """A folder of this user alone, made if it is not there; None where there is none."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    with contextlib.suppress(OSError, RuntimeError):  # RuntimeError: no home
        parent = given if given.is_absolute() else Path("~/.cache").expanduser()
        folder = parent / "bertsmith"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.stat()
        if facts.st_uid == os.getuid() and not facts.st_mode & 0o022:  # or others could lay theirs
            return folder
    return None


def _reason(error: Exception) -> str:
    """The one telling line of a compiler's complaint."""
    told = str(error)
    if isinstance(error, subprocess.CalledProcessError):
        told = error.stderr.strip() or f"{error.cmd[0]} ended with status {error.returncode}"
    lines = [line.strip() for line in told.splitlines()]
    return next((line for line in lines if "error" in line), lines[0])
