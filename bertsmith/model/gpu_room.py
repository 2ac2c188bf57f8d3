"""What CUDA graphs of layers stand on: memory that stays where it is, and how one is captured.

It does not know what layers do.
"""

from __future__ import annotations

import functools
import gc
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TypeAlias

import torch
from torch import Tensor

from bertsmith.model.layer_rules import NUM_WEIGHTS, LearningLayer

Pool: TypeAlias = "torch.cuda._POOL_HANDLE"
"""Whose memory graphs have: what `torch.cuda.graph_pool_handle` gives."""

_SHARE = 0.95
"""Of the memory that there is, what may be full: the rest lies between what is held."""
_one_at_a_time = threading.Lock()
"""Of a device's one stream for it, and of libraries' own memory."""


class Room:
    """Tensors by name, in places that stay theirs: what is larger than all before gets another."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._flat: dict[str, Tensor] = {}

    def of(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Holds numbers of earlier calls, at first zeros."""
        count = math.prod(shape)
        flat = self._flat.get(name)
        if flat is None or flat.dtype != dtype or len(flat) < count:
            # Who had the place before keeps it: twice as much, so that few have to.
            size = 1 << (count - 1).bit_length()
            flat = self._flat[name] = torch.zeros(size, dtype=dtype, device=self.device)
        return flat[:count].view(*shape)


class Gradients:
    """Of all weights of some layers: end to end, those of a type together."""

    def __init__(self, layers: Sequence[LearningLayer], room: Room) -> None:
        self._weights = [weight for layer in layers for weight in layer.weights]
        self._places: dict[torch.dtype, list[int]] = {}
        for place, weight in enumerate(self._weights):
            self._places.setdefault(weight.dtype, []).append(place)
        self._flat: dict[torch.dtype, Tensor] = {}
        for dtype, places in self._places.items():
            count = sum(self._weights[place].numel() for place in places)
            self._flat[dtype] = room.of(f"gradients {dtype}", (count,), dtype)
        self._kept = self._views(self._flat)

    def put(self, number: int, found: Sequence[Tensor]) -> None:
        """Takes those of all weights of a layer."""
        kept = self._kept[number * NUM_WEIGHTS :]
        for dtype in self._places:  # those of a type in one kernel
            own = [place for place, each in enumerate(found) if each.dtype == dtype]
            torch._foreach_copy_([kept[place] for place in own], [found[place] for place in own])

    def copied(self) -> list[Tensor]:
        """What was taken last, in memory of its own."""
        return self._views({dtype: flat.clone() for dtype, flat in self._flat.items()})

    def _views(self, flats: dict[torch.dtype, Tensor]) -> list[Tensor]:
        """Of each weight its stretch."""
        found = list(self._weights)
        for dtype, places in self._places.items():
            parts = torch.split(flats[dtype], [found[place].numel() for place in places])
            for place, part in zip(places, parts, strict=True):
                found[place] = part.view(found[place].shape)
        return found


def has_room(device: torch.device, num_bytes: int) -> bool:
    """Whether this process, holding as much as ever, would fit beside so many bytes more."""
    if device.type != "cuda":
        return True
    free, _ = torch.cuda.mem_get_info(device)
    may_hold = free + reserved_bytes(device)
    return torch.cuda.max_memory_allocated(device) + num_bytes <= _SHARE * may_hold


def reserved_bytes(device: torch.device) -> int:
    """That this process has of a GPU, for graphs and for all else."""
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else 0


def bytes_of(kept: Sequence[Sequence[object]]) -> int:
    """Of all tensors' memory, each place once."""
    tensors = (each for of_layer in kept for each in of_layer if isinstance(each, Tensor))
    places = (each.untyped_storage() for each in tensors)
    return sum({place.data_ptr(): place.nbytes() for place in places}.values())


def captured(device: torch.device, pool: Pool, work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The kernels that `work` launches, which do not run. Raises RuntimeError where none can be."""
    graph = torch.cuda.CUDAGraph()
    with _one_at_a_time, _no_garbage_collected():
        here, side = torch.cuda.current_stream(device), _side(device)
        side.wait_stream(here)
        with torch.cuda.stream(side):
            # Nobody can make one while a graph is captured.
            torch.cuda.current_blas_handle()  # type: ignore[no-untyped-call]
            # The library keeps memory by stream, for ever: that of each graph is to be its pool's.
            torch._C._cuda_clearCublasWorkspaces()
            try:
                graph.capture_begin(pool, capture_error_mode="thread_local")
                try:
                    work()
                finally:
                    _end_capture(graph, pool)
            finally:
                torch._C._cuda_clearCublasWorkspaces()
        here.wait_stream(side)
    return graph


@contextmanager
def _no_garbage_collected() -> Iterator[None]:
    """Another model's graph could be part of it, and what ends one ends a capture under way too."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _end_capture(graph: torch.cuda.CUDAGraph, pool: Pool) -> None:
    """Where that fails, torch 2.11 goes on as if it were under way, and keeps the pool for it."""
    try:
        graph.capture_end()
    except RuntimeError:
        device = torch.cuda.current_device()
        with suppress(RuntimeError):  # of torch that has ended it
            torch._C._cuda_endAllocateToPool(device, pool)
            torch._C._cuda_releasePool(device, pool)
        raise


@functools.cache
def _side(device: torch.device) -> torch.cuda.Stream:
    """Where graphs are captured: the default stream can not be."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def put(given: Tensor | None, place: Tensor | None) -> None:
    """Copies what is given to its place, and zeros behind it."""
    if given is None or place is None:
        return
    place[: len(given)].copy_(given)
    if len(given) < len(place):
        place[len(given) :].zero_()
