"""Several processes -> one run: the command that starts them, and the one disk they work on.

The first process prepares and writes; the others read what it wrote. It does not know what.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from bertsmith.train.device import Processes

SECONDS_TO_APPEAR = 60.0  # network disks show another machine's files half a minute late
_SECONDS_BETWEEN_LOOKS = 0.2


def command_line(arguments: Sequence[str], processes: Processes) -> str:
    """What a person types for these arguments and as many processes, ready for a shell."""
    if processes.world_size == 1:
        return shlex.join(["bertsmith", *arguments])
    on_this_machine = int(os.environ.get("LOCAL_WORLD_SIZE", processes.world_size))
    machines = max(1, processes.world_size // on_this_machine)
    launcher = ["torchrun", *(["--nnodes", str(machines)] if machines > 1 else [])]
    launcher += ["--nproc-per-node", str(on_this_machine), "-m", "bertsmith"]
    return shlex.join([*launcher, *arguments])


def require_shared_disk(
    directory: Path, processes: Processes, seconds: float = SECONDS_TO_APPEAR
) -> None:
    """Raises ValueError in every process when one of them does not see the first one's directory.

    The first leaves a file there and the others look for it, before the long work starts.
    """
    if processes.world_size == 1:
        return
    number = _summed(time.time_ns() if processes.is_first else 0)
    probe = directory / f".seen-{number}.part"
    if processes.is_first:
        probe.touch()
    blind = _summed(0 if _appears(probe, seconds) else 1)
    if processes.is_first:
        probe.unlink(missing_ok=True)
    if blind:
        raise ValueError(
            f"{blind} of {processes.world_size} processes do not see what the first one writes in "
            f"{directory.resolve()}: all of them need one disk that they share; put the run there "
            f"with --out"
        )


def wait_for(path: Path) -> None:
    """Waits until the first process has written `path`; it may prepare for hours.

    `require_shared_disk` has shown that the file will be seen; the launcher ends all processes when
    the first one fails.
    """
    while not path.is_file():
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _summed(number: int) -> int:
    """The sum over all processes."""
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    total = torch.tensor(number, dtype=torch.int64, device=device)
    torch.distributed.all_reduce(total)
    return int(total)


def _appears(path: Path, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while not path.is_file():
        if time.monotonic() > until:
            return False
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return True
