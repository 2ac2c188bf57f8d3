"""What CUDA graphs of layers stand on: memory that stays where it is, and how one is captured.

It does not know what layers do.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bertsmith.model.layer_rules import LearningLayer


class Room:
    """Tensors by name, in places that stay theirs: what is larger than all before gets another."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._flat: dict[str, Tensor] = {}

    def of(self, name: str, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Holds numbers of earlier calls, at first zeros."""
        count = int(np.prod(shape))
        flat = self._flat.get(name)
        if flat is None or flat.dtype != dtype or len(flat) < count:
            with torch.inference_mode(False):
                flat = torch.zeros(count, dtype=dtype, device=self.device)
            self._flat[name] = flat
        return flat[:count].view(*shape)


class Gradients:
    """Of all weights of some layers: end to end, those of a type together."""

    def __init__(self, layers: Sequence[LearningLayer], room: Room) -> None:
        weights = [weight for layer in layers for weight in layer.weights]
        self._shapes = [weight.shape for weight in weights]
        self._places: dict[torch.dtype, list[int]] = {}
        for place, weight in enumerate(weights):
            self._places.setdefault(weight.dtype, []).append(place)
        self._sizes = [weight.numel() for weight in weights]
        self._flat = {
            dtype: room.of(f"gradients {dtype}", (self._total(places),), dtype)
            for dtype, places in self._places.items()
        }

    def put(self, found: Sequence[Tensor]) -> None:
        """Takes those of all weights."""
        for dtype, places in self._places.items():
            views = self._views(self._flat[dtype], places)
            torch._foreach_copy_(views, [found[place] for place in places])

    def copied(self) -> list[Tensor]:
        """What was taken last, in memory of its own."""
        found: list[Tensor] = [torch.empty(0)] * len(self._shapes)
        for dtype, places in self._places.items():
            views = self._views(self._flat[dtype].clone(), places)
            for place, view in zip(places, views, strict=True):
                found[place] = view
        return found

    def _views(self, flat: Tensor, places: Sequence[int]) -> list[Tensor]:
        parts = torch.split(flat, [self._sizes[place] for place in places])
        return [part.view(self._shapes[place]) for place, part in zip(places, parts, strict=True)]

    def _total(self, places: Sequence[int]) -> int:
        return sum(self._sizes[place] for place in places)


def captured(device: torch.device, pool: Any, work: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The kernels that `work` launches, which do not run."""
    graph = torch.cuda.CUDAGraph()
    here, side = torch.cuda.current_stream(device), _side(device)
    side.wait_stream(here)
    with torch.cuda.stream(side):
        graph.capture_begin(pool, capture_error_mode="thread_local")
        try:
            work()
        finally:
            graph.capture_end()
    here.wait_stream(side)
    return graph


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
