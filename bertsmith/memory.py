"""How this process holds its memory: what it frees is kept, and large pages are asked for.

The system is asked at run time, for variables of the environment would have to be set before Python
starts. Where it cannot, nothing changes but the speed. It does not know what lies in the memory.
"""

from __future__ import annotations

import ctypes
import mmap
import sys

_KEEPING = ((-4, 0), (-1, -1))
"""glibc's M_MMAP_MAX: no block of its own from the system; M_TRIM_THRESHOLD: nothing goes back."""
_LARGE_BYTES = 1 << 21
"""Of a large page, on most processors."""


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

    Whoever meets memory in no order, as an update of rows that were looked up does, else waits to
    be told where its pages are.
    """
    first, last = -(-address // _LARGE_BYTES), (address + num_bytes) // _LARGE_BYTES
    if first >= last or not sys.platform.startswith("linux"):
        return False
    try:
        advise, large = ctypes.CDLL(None).madvise, mmap.MADV_HUGEPAGE
    except AttributeError:  # another C library or an older system
        return False
    place, size = ctypes.c_void_p(first * _LARGE_BYTES), (last - first) * _LARGE_BYTES
    return bool(advise(place, ctypes.c_size_t(size), large) == 0)
