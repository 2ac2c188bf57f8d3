"""Ctrl-C (or SIGTERM, or a closed terminal) -> a request that the loop reads between two steps.

A step that is cut in the middle leaves weights that belong to no step. So the first signal only
asks, and says so; a second one stops at once, and the last checkpoint stands.

A request may come in a run's last step, or while its last weights are evaluated or written. Then
the run is finished, and whoever would begin something after it looks at `requested` first.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from types import FrameType, TracebackType

import torch

from bertsmith.train.device import Processes

_STANDARD_ERROR = 2
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PRINTED = (1, _STANDARD_ERROR)
_TOLD = (
    b"\nbertsmith: stopping once the step in hand is saved; once more, and it stops at once, "
    b"without what came after the last checkpoint\n"
)


class Interruption:
    """While entered, turns the first signal into `requested`, the second into KeyboardInterrupt."""

    def __init__(self, *, is_told: bool = True) -> None:
        """`is_told`: the first signal is answered on standard error, by one of many processes."""
        self.requested = False
        """True once the person, or the system, has asked to stop; it stays so when left."""
        self._is_told = is_told
        self._terminals: list[int] = []
        self._closed_by: int | None = None
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interruption:
        """Takes the signals over; not that of a closed terminal where it is ignored (nohup)."""
        self._before = {number: signal.signal(number, self._asked) for number in _SIGNALS}
        if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            self._terminals = [number for number in _PRINTED if os.isatty(number)]
            self._before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self._left_alone)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the signals back; that of a terminal that was closed is ignored from here on.

        The shell and the kernel both tell of it, the later one perhaps only now, while what was
        saved is summed up.
        """
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_IGN if number == self._closed_by else handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._is_told:
            # Not by print: the signal may have come in the middle of one.
            with contextlib.suppress(OSError):
                os.write(_STANDARD_ERROR, _TOLD)

    def _left_alone(self, number: int, frame: FrameType | None) -> None:
        """Asks; from here on nobody reads what is printed."""
        for terminal in self._terminals:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, terminal)
            os.close(nowhere)
        self._terminals = []
        self._closed_by = number
        self.requested = True


def agreed(requested: bool, processes: Processes) -> bool:
    """True in every process when any was asked to stop: all must call it after the same step."""
    if processes.world_size == 1:
        return requested
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    votes = torch.tensor(int(requested), device=device)
    torch.distributed.all_reduce(votes)
    return bool(votes > 0)
