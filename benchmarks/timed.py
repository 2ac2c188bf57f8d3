"""What parts of our functions in C++ take: a profiler of operators sees a single call.

A source is built with `timed.h`, which gives its marks a clock. It is built so for this process
alone, and before anybody else asks for it. It does not know what the functions compute.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import torch

from bertsmith.native import library

_HEADER = Path(__file__).with_suffix(".h")


@dataclass(frozen=True)
class Stage:
    """A part of a function, so far."""

    seconds: float
    """Of one thread, the mean over all."""
    flops: float
    """Of its matrix products."""


def build_timed(source: Path) -> bool:
    """Builds and loads it with a clock; False where there is no compiler, or it came built.

    Whoever loaded it before has the one without.
    """
    digest = hashlib.sha256(_HEADER.read_bytes()).hexdigest()[:16]  # what is kept bears its name
    own = os.environ.get("CXX", "g++")
    with mock.patch.dict(
        os.environ, CXX=f"{own} -include {shlex.quote(str(_HEADER))} -DTIMED_{digest}"
    ):
        found = library(source)
    return found is not None and hasattr(found, "stage_count")


def stages_of(source: Path) -> dict[str, Stage]:
    """Those that began since it was loaded, by name; none where it has no clock."""
    found = library(source)
    if found is None or not hasattr(found, "stage_count"):
        return {}
    found.stage_name.restype = ctypes.c_char_p
    found.stage_nanoseconds.restype = found.stage_multiplications.restype = ctypes.c_int64
    return {
        found.stage_name(number).decode(): Stage(
            found.stage_nanoseconds(number) / 1e9 / torch.get_num_threads(),
            2.0 * found.stage_multiplications(number),
        )
        for number in range(found.stage_count())
    }


def since(before: Mapping[str, Stage], now: Mapping[str, Stage]) -> dict[str, Stage]:
    """What was added, in the order in which each began first."""
    none = Stage(0.0, 0.0)
    was = {name: before.get(name, none) for name in now}
    return {
        name: Stage(stage.seconds - was[name].seconds, stage.flops - was[name].flops)
        for name, stage in now.items()
    }
