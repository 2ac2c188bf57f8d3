"""Torch's threads -> on cores of their own, before they compute something together.

After a pause, and beside other work, two of them may share a core while another one is free: a text
that takes 0.4 ms then takes 12, and a step of fine-tuning ten times as long
(`python -m benchmarks.busy`). Where a person bound threads to cores they stay there; more than 256
threads are left as they are.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from bertsmith.native import library

SOURCE = Path(__file__).with_suffix(".cpp")


def keep_apart() -> int:
    """Those on one core leave it, all but one; gives how many did. On Linux alone."""
    if torch.compiler.is_compiling() or sys.platform != "linux":
        return 0
    num_threads = torch.get_num_threads()
    if num_threads == 1:
        return 0
    found = library(SOURCE)
    return 0 if found is None else int(found.to_cores_of_their_own(num_threads))
