"""What was typed and what a run began with -> the threads and the device of this process."""

from __future__ import annotations

from collections.abc import Mapping

from bertsmith.train.device import processes_of_environment, set_threads
from bertsmith.workers import num_cores


def settle_machine(device: str, threads: int | None, began: Mapping[str, str]) -> str:
    """Sets the threads and names the device: as typed, else as the run began.

    `began` are the versions in the run's record; empty for a new run.
    """
    world_size = str(processes_of_environment().world_size)
    if threads is None and "threads" in began and began.get("processes", "1") == world_size:
        threads = min(int(began["threads"]), num_cores())
    set_threads(threads)
    return began.get("device", "auto") if device == "auto" else device
