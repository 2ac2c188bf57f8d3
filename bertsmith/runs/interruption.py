"""Ctrl-C (or SIGTERM) -> a request that the loop reads between two steps.

A step that is cut in the middle leaves weights that belong to no step. So the first signal only
asks; a second one stops at once, and the last checkpoint stands.
"""

from __future__ import annotations

import signal
from types import FrameType, TracebackType

import torch

from bertsmith.train.device import Processes

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """While entered, turns the first signal into `requested`, the second into KeyboardInterrupt."""

    def __init__(self) -> None:
        self.requested = False
        """True once the person, or the system, has asked to stop."""
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def __enter__(self) -> Interruption:
        """Takes the signals over."""
        self._before = {number: signal.signal(number, self._asked) for number in _SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Gives the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True


def agreed(requested: bool, processes: Processes) -> bool:
    """True in every process when any was asked to stop: all must call it after the same step."""
    if processes.world_size == 1:
        return requested
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    votes = torch.tensor(int(requested), device=device)
    torch.distributed.all_reduce(votes)
    return bool(votes > 0)
