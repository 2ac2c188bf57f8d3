"""What tests ask about processes that they started and ended."""

from __future__ import annotations

import os
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
