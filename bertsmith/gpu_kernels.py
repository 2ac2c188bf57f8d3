"""Kernels that are written in Triton: whether a device takes them, and how they are launched.

They take a second or two each to build, once a machine, where torch.compile takes many: so they
serve the shortest work too, as functions in C++ do on a CPU, and are switched off with these. It
knows none of them but the one that it tries (`gpu_probe`).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertsmith.compiler import is_off

NEEDS = "Triton, a C compiler, Python's headers and a GPU that Triton builds for"
"""Which torch.compile needs too."""
OLDEST_GPU = (8, 0)
"""Compute capability from which there is bfloat16, and room for tiles of 64 rows."""


class Tiled(NamedTuple):
    """A matrix that a kernel asks for, and writes, a tile at a time: by a descriptor of it."""

    matrix: Tensor
    """Contiguous."""
    tile: tuple[int, int]


Argument = Tensor | Tiled | int | float | None
"""Of a kernel, but for its constants."""

ALIGNED_BYTES = 16
"""What a matrix that is read by tiles starts at a multiple of, and so do whole lines."""
_built: dict[tuple[object, ...], Any] = {}
"""What `launch` met before: of this process, as what it holds is a GPU's."""


def run_on(device: torch.device) -> bool:
    """Whether the kernels may be launched there, from here."""
    return (
        device.type == "cuda"
        and not torch.compiler.is_compiling()
        and not is_off()
        and _are_built_for(torch.cuda.current_device() if device.index is None else device.index)
    )


def launch(
    kernel: Any,  # Triton names no type for one
    grid: tuple[int, int, int],
    arguments: Sequence[Argument],
    constants: Mapping[str, int | str],
    options: Mapping[str, int],
) -> None:
    """Runs a kernel where its first argument lies, no number; `constants` in the kernel's order.

    Triton is asked once what is to be built for such arguments: to find that again, among all that
    it specialises kernels for, takes it longer than many a kernel runs. Integers must be those that
    the kernel says not to be specialised for.
    """
    first = _tensor_of(arguments[0])
    assert first is not None
    kinds = [_kind(each) for each in arguments]
    key = (kernel, first.device, *kinds, *constants.values(), *options.values())
    with torch.cuda.device_of(first):  # type: ignore[no-untyped-call]
        built = _built.get(key) if _are_aligned(arguments) else None
        if built is not None:
            built[grid](*map(_given, arguments), *constants.values())
            return
        made = kernel[grid](*map(_given, arguments), **constants, **options)
        if made is not None and _are_aligned(arguments):  # an interpreter makes nothing
            _built[key] = made


def _given(argument: Argument) -> object:
    """As Triton takes it."""
    if not isinstance(argument, Tiled):
        return argument
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor.from_tensor(argument.matrix, list(argument.tile))


def _tensor_of(argument: Argument) -> Tensor | None:
    matrix = argument.matrix if isinstance(argument, Tiled) else argument
    return matrix if isinstance(matrix, Tensor) else None


def _kind(argument: Argument) -> object:
    """What another kernel is built for, of an argument that is no constant."""
    if isinstance(argument, Tiled):
        return argument.matrix.dtype, argument.tile
    if isinstance(argument, Tensor):
        return argument.dtype
    return type(argument), isinstance(argument, int) and not -(2**31) <= argument < 2**31


def _are_aligned(arguments: Sequence[Argument]) -> bool:
    """Whether all start where whole lines are read: for others Triton builds another kernel."""
    tensors = (_tensor_of(each) for each in arguments)
    return not any(each.data_ptr() % ALIGNED_BYTES for each in tensors if each is not None)


@functools.cache
def _are_built_for(number: int) -> bool:
    """Found out by building one, as `fusion.is_available` does. Says once what is missing."""
    # AMD's tiles are not these, and nobody has tried them.
    if torch.version.hip is not None or torch.cuda.get_device_capability(number) < OLDEST_GPU:
        return False
    try:
        from bertsmith import gpu_probe

        ones = torch.ones(16, device=torch.device("cuda", number))
        launch(gpu_probe.doubled, (1, 1, 1), (ones,), {"COUNT": len(ones)}, {"num_warps": 1})
        is_right = bool((ones == 2.0).all())
    except Exception as error:  # whatever stops it, operators do not need it
        logging.getLogger(__name__).warning(
            "warning: no kernels in Triton, so this is correct but slower: they need %s (%s)",
            NEEDS,
            next(iter(str(error).strip().splitlines()), "no reason given"),
        )
        return False
    return is_right
