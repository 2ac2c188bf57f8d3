"""The functions in C++ that compute with tensors: for which they are there, and calls of them.

`compiler` builds them, for the vectors and instructions that torch finds in this processor. It
knows no model.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from pathlib import Path

import torch
from torch import Tensor, nn

from bertsmith import compiler
from bertsmith.compiler import Build

TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
"""How the functions for numbers of a type are named, behind the name of what they do."""

_KINDS = (Tensor, nn.Parameter)
"""Tensors of numbers: others stand in for them where a model is traced or transformed."""

_OPTIONS = ("-fopenmp", "-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno")
"""Not -ffast-math: it would change the order of sums that are exact only in theirs, and with some
compilers make a zero of every subnormal number of the whole process."""
_X86 = {
    "AVX512": ("64", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mavx2", "-mfma"),
    "AVX2": ("32", "-mavx2", "-mfma"),
}
"""Bytes of a vector, and the instructions that have it, by what torch takes this processor for."""
_MORE = {
    **{"avx512_bf16": "-mavx512bf16", "avx512_fp16": "-mavx512fp16"},
    **{"avx512_vnni": "-mavx512vnni"},
    **{"amx_tile": "-mamx-tile", "amx_bf16": "-mamx-bf16", "amx_int8": "-mamx-int8"},
}
"""Instructions that one processor with these vectors has and another one not, by torch's name for
them."""
_OF_FLOAT16 = 'extern "C" void add(_Float16* a) { a[0] += a[1] * a[2]; }'
"""What a compiler must build with its option to be told of these instructions."""
_IN_VECTORS, _IN_TILES = 1.0, 2.0
"""How a source may say that it multiplies."""


def library(source: Path) -> ctypes.CDLL | None:
    """The built file, with all that it exports; None where there is none."""
    return None if compiler.is_off() else _loaded(source)


def takes(source: Path, *tensors: Tensor) -> bool:
    """Whether tensors are such that the source has functions for them, and it is there.

    They must hold numbers of one type in a CPU's memory: no stand-ins, with which a model is traced
    or transformed.
    """
    for each in tensors:  # one loop: a short text waits for it
        if type(each) not in _KINDS or not each.is_cpu:
            return False
    return (
        tensors[0].dtype in TYPES
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


def size(source: Path, name: str, numbers: Tensor, *arguments: object) -> int:
    """What the source's function of that name for numbers of that type counts."""
    found = _loaded(source)
    assert found is not None
    function = found[f"{name}_{TYPES[numbers.dtype]}"]
    function.restype = ctypes.c_int64
    return int(function(*arguments))


def has_fast_products(
    source: Path,
    numbers: Tensor,
    *,
    of_bytes: bool = False,
    of_float16: bool = False,
    in_tiles: bool = False,
) -> bool:
    """Whether the source's own products beside such numbers are at least level with torch's.

    As measured: what was built must have an instruction for them, and where the processor has a
    matrix unit for them (AMX), or none but such a unit pays, must use it. Where no build could have
    what it needs, none is made.
    """
    asked = {"avx512_vnni": of_bytes, "avx512_fp16": of_float16, "amx_bf16": in_tiles}
    needed = [_MORE[name] for name, is_needed in asked.items() if is_needed]
    if not set(needed) <= set(build().instructions) or not takes(source, numbers):
        return False
    of_halves = "amx_bf16" if numbers.dtype == torch.bfloat16 else ""
    has_tiles = in_tiles or torch.cpu.get_capabilities().get("amx_int8" if of_bytes else of_halves)
    return call(source, "multiplies", numbers) >= (_IN_TILES if has_tiles else _IN_VECTORS)


def multiplies_float16() -> bool:
    """Whether this CPU multiplies float16, and a compiler is there that knows it."""
    return _MORE["avx512_fp16"] in build().instructions and not compiler.is_off()


def multiplies_in_tiles() -> bool:
    """Whether this CPU has a matrix unit for bfloat16, and a compiler is there."""
    return _MORE["amx_bf16"] in build().instructions and not compiler.is_off()


def bf16_instructions() -> str:
    """Of those that choose between products of bfloat16, which this processor has, or `none`."""
    has = torch.cpu.get_capabilities()
    return " ".join(name for name in ("avx512_bf16", "amx_bf16") if has.get(name)) or "none"


def pointer(tensor: Tensor | None) -> ctypes.c_void_p:
    """Where its numbers lie, one behind the other; null for none."""
    assert tensor is None or tensor.is_contiguous()
    return ctypes.c_void_p(None if tensor is None else tensor.data_ptr())


@functools.cache
def build() -> Build:
    """For this processor's vectors, as torch takes them, and what else it has."""
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    capability = torch.backends.cpu.get_cpu_capability()
    vector_bytes, *vectors = _X86.get(capability, ("16",)) if is_x86 else ("16",)
    has = torch.cpu.get_capabilities() if capability == "AVX512" else {}
    return Build(
        options=(*_OPTIONS, *vectors, f"-DVECTOR_BYTES={vector_bytes}"),
        instructions=tuple(
            option for name, option in _MORE.items() if has.get(name) and _is_known(option)
        ),
    )


def _is_known(option: str) -> bool:
    """False of a new one that compilers of this time may take and their assemblers not."""
    return option != _MORE["avx512_fp16"] or compiler.builds(_OF_FLOAT16, option)


@functools.cache
def _loaded(source: Path) -> ctypes.CDLL | None:
    return compiler.loaded(source, build())
