"""What tests ask about processes that they started and ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def is_running(process: int) -> bool:
    """Whether it has not ended; one that waits to be buried has.

    It may end, and be buried, between any two looks.
    """
    try:
        os.kill(process, 0)
        if not Path("/proc/self/stat").exists():
            return True
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"


def wait_until(condition: Callable[[], object], seconds: float = 300.0) -> None:
    """Fails where it has not come true after so long, which only a hang takes."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.01)
