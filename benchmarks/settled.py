"""Steps -> one that found its memory as the step before it left it, with its time.

What a profiler keeps of a step lies between a training's blocks of memory. The steps after it, up
to ten and more, ask the system for pages elsewhere until all have a place again, and wait for
these: 20 ms of 140. It does not know what the steps compute.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

MOST_STEPS = 16
"""Steps are no longer waited for then."""
FEW_FAULTS = 256
"""Pages that a step may meet for the first time: of 4 KiB a megabyte, cleared in a millisecond."""


class Taken(NamedTuple):
    """A step that was taken."""

    tokens: int
    seconds: float
    faults: int
    """Pages that it met for the first time; more than `FEW_FAULTS` where nothing settled."""


def settled(steps: Iterator[Callable[[], int]]) -> Taken:
    """Takes steps, which tell their tokens, up to the first that met few pages, or `MOST_STEPS`."""
    for number in range(1, MOST_STEPS + 1):
        step = next(steps)
        before, began = page_faults(), time.perf_counter()
        tokens = step()
        seconds = time.perf_counter() - began
        faults = page_faults() - before
        if faults <= FEW_FAULTS or number == MOST_STEPS:
            break
    return Taken(tokens, seconds, faults)


def page_faults() -> int:
    """Of this process so far, those that no disk was read for."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
