"""A running process -> the most memory that it and all its children ever held at one moment.

Read from /proc, so on Linux only. The sum counts a page once for every process that maps it, files
included: it never says less than is used.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SECONDS_BETWEEN_LOOKS = 0.05
_PROC = Path("/proc")


@dataclass(frozen=True, kw_only=True)
class Finished:
    """A command that ended well."""

    seconds: float
    peak_bytes: int
    """Of resident memory, of all its processes together; 0 where there is no /proc."""
    most_processes: int


def own_peak_bytes() -> int:
    """The most that this process ever held resident.

    Where there is a /proc; what `resource` says instead begins with the memory of the parent.
    """
    status = _PROC / "self" / "status"
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lines = status.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


def run_watched(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Runs a command to its end, watching its memory.

    Raises RuntimeError with the end of its output when it fails.
    """
    began = time.perf_counter()
    process = subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    peak_bytes = most_processes = 0
    while process.poll() is None:
        members = tree_of(process.pid, parents())
        peak_bytes = max(peak_bytes, resident_bytes(members))
        most_processes = max(most_processes, len(members))
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    seconds = time.perf_counter() - began
    output = process.communicate()[0]
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{output[-2000:]}")
    return Finished(seconds=seconds, peak_bytes=peak_bytes, most_processes=most_processes)


def tree_of(root: int, parents: Mapping[int, int]) -> set[int]:
    """The process and all that descend from it."""
    members = {root}
    while True:
        children = {child for child, parent in parents.items() if parent in members}
        if children <= members:
            return members
        members |= children


def parents(proc: Path = _PROC) -> dict[int, int]:
    """Every process's parent."""
    found = {}
    for path in proc.glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        # The name, in brackets, may hold blanks and brackets of its own.
        found[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
    return found


def resident_bytes(processes: Iterable[int], proc: Path = _PROC) -> int:
    """Resident memory of all of them; those that ended count nothing."""
    total = 0
    for number in processes:
        try:
            lines = (proc / str(number) / "status").read_text(encoding="utf-8").splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * 1024
    return total
