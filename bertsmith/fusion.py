"""A plain torch function -> the same function in one fused kernel, where a compiler is at hand.

The plain function is the definition; fusing changes its speed, not its meaning. Without a C++
compiler (CPU) or Triton (GPU), or with BERTSMITH_FUSION=0, the plain function itself runs. It knows
no model.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

LEAST_CAPABILITY = (7, 0)
"""Triton builds for NVIDIA GPUs from Volta on."""
MAX_KERNELS = 64
"""Kernels of one function before torch gives up: its types, modes and sizes of one; not shapes."""

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


def fused(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compiles `function` at its first call, with dynamic shapes from the start.

    Dynamic from the first call, so that the history of shapes never chooses the kernel: a resumed
    run computes the same bits as one that never stopped.
    """

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if _PLAIN.get() or not is_available() or torch.compiler.is_compiling():
            return function(*args, **kwargs)
        result: Result = _compiled(function)(*args, **kwargs)
        return result

    return call


@contextlib.contextmanager
def unfused(condition: bool = True) -> Iterator[None]:
    """Runs the plain functions inside the block, if `condition` holds: no waiting for a compiler.

    For short work, such as one question to a model, that ends before a compilation would.
    """
    token = _PLAIN.set(condition or _PLAIN.get())
    try:
        yield
    finally:
        _PLAIN.reset(token)


@functools.cache
def is_available() -> bool:
    """True when torch.compile can build kernels here and the user has not switched it off.

    A GPU needs a compiler too: Triton builds the code that launches its kernels with one.
    """
    if os.environ.get("BERTSMITH_FUSION", "1") == "0":
        return False
    compilers = [os.environ.get("CXX"), "g++", "clang++", "cl" if sys.platform == "win32" else None]
    if not any(compiler and shutil.which(compiler) for compiler in compilers):
        return False
    if not torch.cuda.is_available():
        return True
    has_triton = importlib.util.find_spec("triton") is not None
    return has_triton and torch.cuda.get_device_capability() >= LEAST_CAPABILITY


@functools.cache
def _compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    limits = torch._dynamo.config
    limits.recompile_limit = max(limits.recompile_limit, MAX_KERNELS)
    # Not fullgraph: beyond the limit torch then runs the plain function instead of raising.
    compiled: Callable[Parameters, Result] = torch.compile(function, dynamic=True)
    return compiled
