"""A plain torch function -> the same function in one fused kernel, where torch.compile serves.

The plain function is the definition; fusing changes its speed, not its meaning. Where torch.compile
cannot build for a device, or with BERTSMITH_FUSION=0, the plain function itself runs. So it does on
a CPU that has functions in C++ (`native`): a BERT's steps consist of what these take, and
torch.compile takes seconds at every start. It knows no model.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from bertsmith import gpu_kernels, native

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

NEEDS = {
    "cpu": "a C++ compiler that torch can use and Python's headers",
    "cuda": gpu_kernels.NEEDS,
}
"""What kernels need, by the type of device; on any other the plain functions run, unasked."""
MAX_KERNELS = 64
"""Kernels of one function before torch gives up: its types, modes and sizes of one; not shapes."""

_PLAIN: ContextVar[bool] = ContextVar("plain", default=False)


def fused(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Compiles `function` at its first call, with dynamic shapes from the start.

    Dynamic from the first call, so that the history of shapes never chooses the kernel: a resumed
    run computes the same bits as one that never stopped. The first tensor among the positional
    arguments says on which device.
    """

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        device_type = next(arg.device.type for arg in args if isinstance(arg, Tensor))
        if torch.compiler.is_compiling() or not is_fusing(device_type):
            return function(*args, **kwargs)
        _settle(device_type)
        result: Result = _compiled(function)(*args, **kwargs)
        return result

    return call


@contextlib.contextmanager
def unfused(condition: bool = True) -> Iterator[None]:
    """Runs the plain functions inside the block, if `condition` holds: no torch.compile.

    For short work, such as one question to a model, that ends before a compilation would. Functions
    in C++ (`native`) and kernels in Triton are another matter: built once a machine, in seconds. A
    backward pass on a GPU, which autograd runs in threads of its own, is not reached: its kernels
    are compiled.
    """
    token = _PLAIN.set(condition or _PLAIN.get())
    try:
        yield
    finally:
        _PLAIN.reset(token)


def is_fusing(device_type: str) -> bool:
    """True when a fused function called here, on such a device, runs as a kernel."""
    if _PLAIN.get() or (device_type == "cpu" and native.is_there()):
        return False
    return is_available(device_type)


def is_eager_on_cpu(tensor: Tensor) -> bool:
    """True on a CPU where a fused function runs operator by operator.

    Each is a pass over memory then, and pieces that its caches hold are faster than the whole.
    """
    return tensor.device.type == "cpu" and not is_fusing("cpu")


@functools.cache
def is_available(device_type: str) -> bool:
    """True when torch.compile builds kernels for the device and the user has not switched it off.

    Found out by building one, once a process: which compilers, headers and GPUs will do is known to
    torch alone, and a training must not break at its first step. Says once what is missing.
    """
    if os.environ.get("BERTSMITH_FUSION", "1") == "0" or device_type not in NEEDS:
        return False
    try:
        _settle(device_type)
        float(_compiled(_probe)(torch.ones(2, 3, device=device_type)))
    except Exception as error:  # whatever stops a compiler, the plain functions do not need it
        # Without a handler of the user's, logging prints the bare line to standard error.
        logging.getLogger(__name__).warning(
            "warning: no fused kernels, so this is correct but slower: they need %s (%s)",
            NEEDS[device_type],
            _reason(str(error)),
        )
        return False
    return True


def _probe(rows: Tensor) -> Tensor:
    return (rows + 1).sum()


def _reason(message: str) -> str:
    """The one telling line of a compiler's complaint."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or ["no reason given"]
    return next((line for line in lines if "error: " in line or "Compiler: " in line), lines[0])


def _settle(device_type: str) -> None:
    """Sets what the kernels rely on, in this thread: torch keeps its settings by thread."""
    shapes = torch.fx.experimental._config
    # Or sizes that happen to be equal at the first call would become one size of the kernel.
    if shapes.use_duck_shape:
        shapes.use_duck_shape = False
    limits = torch._dynamo.config
    if limits.recompile_limit < MAX_KERNELS:
        limits.recompile_limit = MAX_KERNELS
    # Or a number such as a dropout rate is a variable of the kernel, and what is computed from it
    # in Python (a bound, an epsilon) silently stays that of the first call.
    if not limits.specialize_float:
        limits.specialize_float = True
    kernels = torch._inductor.config.cpp
    # The name of a kernel on disk holds the width of vectors only where it is set: else kernels
    # made on a processor with AVX-512 are taken, silently wrong, on one with AVX2.
    if device_type == "cpu" and kernels.simdlen is None:
        kernels.simdlen = _vector_bits()


@functools.cache
def _vector_bits() -> int:
    """The width that torch chooses for this processor; 0 where it has no vectors."""
    from torch._inductor import cpu_vec_isa

    return cpu_vec_isa.pick_vec_isa().bit_width()


@functools.cache
def _compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    # Not fullgraph: beyond the limit torch then runs the plain function instead of raising.
    compiled: Callable[Parameters, Result] = torch.compile(function, dynamic=True)
    return compiled
