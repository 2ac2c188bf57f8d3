"""The functions in C++ that compute with tensors: for which they are there, and calls of them.

`compiler` has them, for the vectors and instructions that torch finds in this processor. It knows
no model.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from bertsmith import compiler, processors
from bertsmith.libraries import Build, carries
from bertsmith.processors import OPTIONS

TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16"}
"""How the functions for numbers of a type are named, behind the name of what they do."""

_KINDS = (Tensor, nn.Parameter)
"""Tensors of numbers: others stand in for them where a model is traced or transformed."""

_LINE_BYTES = 64
_IN_VECTORS, _IN_TILES = 1.0, 2.0
"""How a source may say that it multiplies."""


def is_there() -> bool:
    """Whether functions can be had here, carried by a wheel or built, and nobody does without."""
    return not compiler.is_off() and (carries(build()) or compiler.is_there())


def build_together(sources: Iterable[Path]) -> None:
    """Builds what is not there yet of sources that will be asked for, side by side."""
    compiler.build_together(sources, build())


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


def learns(numbers: Tensor, *dtypes: torch.dtype) -> bool:
    """Whether it is worth asking for more: gradients are wanted, of such numbers, on a CPU."""
    return (
        torch.is_grad_enabled()
        and numbers.dtype in dtypes
        and numbers.is_cpu
        and not torch.compiler.is_compiling()
    )


def call(source: Path, name: str, numbers: Tensor, *arguments: object) -> float:
    """Calls the source's function of that name for numbers of that type.

    What `takes` has promised holds, whatever was switched off since. Raises MemoryError where the
    function found no room to work in.
    """
    found = _loaded(source)
    assert found is not None
    function = _function(found, f"{name}_{TYPES[numbers.dtype]}")
    result: float = function(*arguments, ctypes.c_int(torch.get_num_threads()))
    if result < 0.0:
        raise MemoryError(f"no memory to work in for {name} of {numbers.numel():,} numbers")
    return result


def size(source: Path, name: str, numbers: Tensor, *arguments: object) -> int:
    """What the source's function of that name for numbers of that type counts."""
    found = _loaded(source)
    assert found is not None
    function = _function(found, f"{name}_{TYPES[numbers.dtype]}", ctypes.c_int64)
    return int(function(*arguments))


def room(source: Path, name: str, numbers: Tensor, *arguments: object) -> Tensor:
    """As many bytes as that function counts, (B,) uint8, where whole lines of a cache are written.

    They begin with a line, as torch's memory does.
    """
    found = numbers.new_empty(size(source, name, numbers, *arguments), dtype=torch.uint8)
    assert found.data_ptr() % _LINE_BYTES == 0, "lines past the cache must be whole"
    return found


def has_fast_products(
    source: Path,
    numbers: Tensor,
    *,
    of_bytes: bool = False,
    of_float16: bool = False,
    of_bfloat16: bool = False,
    in_tiles: bool = False,
) -> bool:
    """Whether the source's own products beside such numbers are at least level with torch's.

    As measured: what was built must have an instruction for them, and where the processor has a
    matrix unit for them (AMX), or none but such a unit pays, must use it. Where no build could have
    what it needs, none is made.
    """
    asked = {
        "avx512_vnni": of_bytes,
        "avx512_fp16": of_float16,
        "avx512_bf16": of_bfloat16,
        "amx_bf16": in_tiles,
    }
    needed = [OPTIONS[name] for name, is_needed in asked.items() if is_needed]
    if not set(needed) <= set(build().instructions) or not takes(source, numbers):
        return False
    of_halves = "amx_bf16" if numbers.dtype == torch.bfloat16 else ""
    has_tiles = in_tiles or torch.cpu.get_capabilities().get("amx_int8" if of_bytes else of_halves)
    found = _loaded(source)
    assert found is not None
    way = _way_of_products(found, f"multiplies_{TYPES[numbers.dtype]}")
    return way >= (_IN_TILES if has_tiles else _IN_VECTORS)


@functools.cache
def _way_of_products(found: ctypes.CDLL, name: str) -> float:
    """How it says that it multiplies, which never changes."""
    return float(_function(found, name)(ctypes.c_int(1)))


@functools.cache
def _function(
    found: ctypes.CDLL, name: str, result: type[ctypes._SimpleCData[Any]] = ctypes.c_float
) -> Callable[..., float]:
    """The library's function, of that result: to look for it again takes longer than a call."""
    function = found[name]
    function.restype = result
    return function


def multiplies_float16() -> bool:
    """Whether this CPU multiplies float16, and functions for that can be had."""
    return OPTIONS["avx512_fp16"] in build().instructions and not compiler.is_off()


def multiplies_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16, and functions for that can be had."""
    return OPTIONS["avx512_bf16"] in build().instructions and not compiler.is_off()


def multiplies_in_tiles() -> bool:
    """Whether this CPU has a matrix unit for bfloat16, and functions for that can be had."""
    return OPTIONS["amx_bf16"] in build().instructions and not compiler.is_off()


def has_long_vectors() -> bool:
    """Whether functions are built for vectors of 512 bits."""
    return "-DVECTOR_BYTES=64" in build().options


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
    has = [name for name, is_there in torch.cpu.get_capabilities().items() if is_there]
    return processors.build(torch.backends.cpu.get_cpu_capability(), has)


@functools.cache
def _loaded(source: Path) -> ctypes.CDLL | None:
    return compiler.loaded(source, build())
