"""Steps -> the seconds of one that found its memory as the step before it left it.

What a profiler keeps of a step lies between a training's blocks of memory. The steps after it ask
the system for pages elsewhere until all have a place again, some ten of them, and wait for these:
20 ms of 140. It does not know what the steps compute.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator

MOST_STEPS = 16
"""Steps are no longer waited for then."""
FEW_FAULTS = 256
"""Pages of 4 KiB that a step may meet for the first time: a megabyte, cleared in a millisecond."""


def settled_seconds(steps: Iterator[Callable[[], object]]) -> float:
    """Takes steps up to the first that met few pages anew; its time, or that of the last one."""
    seconds = 0.0
    for _ in range(MOST_STEPS):
        step = next(steps)
        faults, began = page_faults(), time.perf_counter()
        step()
        seconds = time.perf_counter() - began
        if page_faults() - faults <= FEW_FAULTS:
            break
    return seconds


def page_faults() -> int:
    """Of this process so far, those that no disk was read for."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
