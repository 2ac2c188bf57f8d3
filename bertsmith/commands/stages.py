"""A stage of work with a known end -> a bar on a terminal, a few plain lines elsewhere.

It shows what it is told and decides nothing.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from bertsmith.runs.progress import duration, say

_SECONDS_BETWEEN_LINES = 10.0


class Stage:
    """Progress from 0 to `total` units; a context manager.

    Time left is measured from the first `reach` on, so that a stage that goes on after a stop
    counts from where it went on.
    """

    def __init__(self, console: Console, name: str, unit: str, total: int) -> None:
        self._console, self._name, self._unit, self._total = console, name, unit, total
        self._started = self._shown = time.perf_counter()
        self._first: tuple[float, int] | None = None
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn(name),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TextColumn("{task.description}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task("starting", total=total)

    def __enter__(self) -> Stage:
        """Starts the bar."""
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leaves the last state standing."""
        if self._bar is not None:
            self._bar.stop()
        elif error is None and self._first is not None:
            self._print(f"{self._name}: done in {time.perf_counter() - self._started:.1f} s")

    def reach(self, done: int, facts: str = "") -> None:
        """Shows that `done` units of the total are finished, in other words if `facts` has some."""
        facts = facts or f"{done:,}/{self._total:,} {self._unit}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=facts)
            return
        now = time.perf_counter()
        began, first = self._first = self._first or (now, done)
        if now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        line = f"{self._name}: {done / max(1, self._total):.0%} ({facts})"
        if done > first:
            line += (
                f", about {duration((now - began) * (self._total - done) / (done - first))} left"
            )
        self._print(line)

    def _print(self, line: str) -> None:
        say(self._console, line)
