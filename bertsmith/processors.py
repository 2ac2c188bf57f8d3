"""A processor's vectors and instructions -> how a source in C++ is built for it.

A wheel may carry what is built for the processors below, so that a machine without a compiler has
the same functions. It knows no torch, whose names for vectors and instructions it takes.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from pathlib import Path

from bertsmith import compiler
from bertsmith.libraries import Build, carries

_OPTIONS = ("-fopenmp", "-ffp-contract=fast", "-fno-trapping-math", "-fno-math-errno")
"""Not -ffast-math: it would change the order of sums that are exact only in theirs, and with some
compilers make a zero of every subnormal number of the whole process."""
_X86 = {
    "AVX512": ("64", "-mavx512f", "-mavx512vl", "-mavx512bw", "-mavx512dq", "-mavx2", "-mfma"),
    "AVX2": ("32", "-mavx2", "-mfma"),
}
"""Bytes of a vector, and the instructions that have it, by what torch takes this processor for."""
OPTIONS = {
    **{"avx512_bf16": "-mavx512bf16", "avx512_fp16": "-mavx512fp16"},
    **{"avx512_vnni": "-mavx512vnni"},
    **{"amx_tile": "-mamx-tile", "amx_bf16": "-mamx-bf16", "amx_int8": "-mamx-int8"},
}
"""Instructions that one processor with these vectors has and another one not, by torch's name for
them."""
_OF_FLOAT16 = 'extern "C" void add(_Float16* a) { a[0] += a[1] * a[2]; }'
"""What a compiler must build with its option to be told of these instructions."""

CARRIED = (
    ("AVX2", ()),  # Intel's of 2013 to 2016, AMD's up to Zen 3
    ("AVX512", ()),  # Skylake
    ("AVX512", ("avx512_vnni",)),  # Cascade Lake, Ice Lake
    ("AVX512", ("avx512_vnni", "avx512_bf16")),  # Cooper Lake, AMD's Zen 4 and 5
    ("AVX512", ("avx512_vnni", "avx512_bf16", "avx512_fp16")),  # the last one's in some machines
    ("AVX512", tuple(OPTIONS)),  # Sapphire Rapids and later
)
"""For what a wheel for Linux on x86-64 carries functions: vectors, and instructions beside them."""


def carried(source: Path) -> list[Build]:
    """How a wheel carries a source of this package: what is of text needs no vectors."""
    if source.parent.name == "text":
        return [Build()]
    return [_exact(capability, instructions) for capability, instructions in CARRIED]


def build(capability: str, has: Collection[str]) -> Build:
    """For vectors as torch takes this processor's, and what else it has of `OPTIONS`.

    As the wheel carries it, or as a compiler here can; where there is neither, the most that the
    wheel carries and this processor has.
    """
    exact = _exact(capability, has)
    if carries(exact):
        return exact
    nearest = _nearest(exact)
    if nearest and not compiler.is_there():
        return nearest
    known = tuple(option for option in exact.instructions if _is_known(option))
    return Build(options=exact.options, instructions=known)


def _exact(capability: str, has: Collection[str]) -> Build:
    is_x86 = platform.machine().lower() in ("x86_64", "amd64")
    vector_bytes, *vectors = _X86.get(capability, ("16",)) if is_x86 else ("16",)
    beside = OPTIONS.items() if is_x86 and capability == "AVX512" else ()
    return Build(
        options=(*_OPTIONS, *vectors, f"-DVECTOR_BYTES={vector_bytes}"),
        instructions=tuple(option for name, option in beside if name in has),
    )


def _nearest(exact: Build) -> Build | None:
    """Of what a wheel carries and a processor can run, that of the most instructions."""
    for capability, instructions in reversed(CARRIED):
        found = _exact(capability, instructions)
        is_runnable = set(found.instructions) <= set(exact.instructions)
        if found.options == exact.options and is_runnable and carries(found):
            return found
    return None


def _is_known(option: str) -> bool:
    """False of a new one that compilers of this time may take and their assemblers not."""
    return option != OPTIONS["avx512_fp16"] or compiler.builds(_OF_FLOAT16, option)
