"""Stages of our functions in C++, and what they take: a profiler of operators sees a single call.

A source is built with `timed.h`, which gives its stages a clock, for this process alone and before
anybody else asks for it. It does not know what the functions compute.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from unittest import mock

import torch

from benchmarks.parts import BACKWARD, FORWARD, Part
from bertsmith import compiler
from bertsmith.native import library

_HEADER = Path(__file__).with_suffix(".h")


@dataclass(frozen=True)
class Stage:
    """What one stage took."""

    seconds: float
    """Of one thread, the mean over all."""
    flops: float
    """Of its matrix products."""


def timed(source: Path) -> ctypes.CDLL | None:
    """The source's functions, built with a clock; None where there is no compiler, or none is used.

    Raises RuntimeError where they are there without one: they came built, were loaded before, or
    could not be built so.
    """
    if compiler.is_off() or not compiler.is_there():
        return None
    digest = hashlib.sha256(_HEADER.read_bytes()).hexdigest()[:16]  # what is kept bears its name
    own = os.environ.get("CXX", "").strip() or "g++"
    with_clock = f"{own} -include {shlex.quote(str(_HEADER))} -DTIMED_{digest}"
    with mock.patch.dict(os.environ, CXX=with_clock):
        found = library(source)
    without = RuntimeError(f"{source.name} is not built with a clock in this process")
    if found is None:
        raise without
    try:
        found.stage_name.restype = ctypes.c_char_p
        found.stage_nanoseconds.restype = found.stage_products.restype = ctypes.c_int64
    except AttributeError:
        raise without from None
    return found


def stages_of(found: ctypes.CDLL | None) -> dict[str, Stage]:
    """Of what `timed` gives, those that began since it was loaded, by name."""
    if found is None:
        return {}
    return {
        found.stage_name(number).decode(): Stage(
            found.stage_nanoseconds(number) / 1e9 / torch.get_num_threads(),
            2.0 * found.stage_products(number),
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


def opened(parts: Mapping[str, Part], of: str, stages: Mapping[str, Stage]) -> dict[str, Part]:
    """With a part's stages behind what is left of it; one that does not go back is forward."""
    found: dict[str, Part] = {}
    for name, part in parts.items():
        own = {
            _named(of, stage): Part(seconds=spent.seconds, flops=spent.flops)
            for stage, spent in stages.items()
            if name == of + _side(stage)
        }
        rest = part.seconds - sum(each.seconds for each in own.values())
        found |= {name: replace(part, seconds=rest), **own}
    return found


def _side(stage: str) -> str:
    return BACKWARD if stage.endswith(BACKWARD) else FORWARD


def _named(part: str, stage: str) -> str:
    side = _side(stage)
    return f"{part}: {stage.removesuffix(side)}{side}"
