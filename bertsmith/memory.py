"""How this process holds its memory: what it frees is kept, and large pages are asked for.

The system is asked at run time, for variables of the environment would have to be set before Python
starts. Where it cannot, nothing changes but the speed. It does not know what lies in the memory.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

_KEEPING = ((-4, 0), (-1, (1 << 31) - 1))
"""glibc's M_MMAP_MAX: no block of its own from the system; M_TRIM_THRESHOLD: nothing goes back."""


def keep_freed_memory() -> bool:
    """Lets this process keep the memory that it frees; False where the platform cannot.

    A training step frees gigabytes and asks for them again. Given back to the system in between,
    every page returns as a fault and has to be cleared: a tenth of a step of BASE on a CPU. The
    C library of most Linux systems can keep them; the process then stays at its peak.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        change = ctypes.CDLL(None).mallopt
    except AttributeError:  # another C library
        return False
    return all(change(name, value) == 1 for name, value in _KEEPING)


def ask_for_large_pages(address: int, num_bytes: int) -> bool:
    """Asks for them where so many bytes lie, before they are written; False where there are none.

    Whoever meets memory in no order, as an update of rows that were looked up does, else waits for
    where its pages are. Linux makes large ones of what begins and ends with them.
    """
    if not sys.platform.startswith("linux"):
        return False
    start, end = -(-address // mmap.PAGESIZE), (address + num_bytes) // mmap.PAGESIZE
    if start >= end:
        return False
    place, size = ctypes.c_void_p(start * mmap.PAGESIZE), (end - start) * mmap.PAGESIZE
    advise = ctypes.CDLL(None).madvise
    return bool(advise(place, ctypes.c_size_t(size), mmap.MADV_HUGEPAGE) == 0)
