"""A stage of work with a known end -> a bar on a terminal, a few plain lines elsewhere.

It shows what it is told and decides nothing.
"""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0


class Stage:
    """Progress from 0 to `total` units; a context manager."""

    def __init__(self, console: Console, name: str, unit: str, total: int) -> None:
        self._console, self._name, self._unit, self._total = console, name, unit, total
        self._started = self._shown = time.perf_counter()
        self._bar: Progress | None = None
        if console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TaskProgressColumn(),
                TextColumn(f"{{task.completed:,.0f}}/{{task.total:,.0f}} {unit}"),
                TimeRemainingColumn(),
                console=console,
            )
            self._task = self._bar.add_task(name, total=total)

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
        elif error is None:
            self._print(f"{self._name}: done in {time.perf_counter() - self._started:.1f} s")

    def reach(self, done: int) -> None:
        """Shows that `done` units of the total are finished."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)
            return
        now = time.perf_counter()
        if now - self._shown < _SECONDS_BETWEEN_LINES:
            return
        self._shown = now
        left = (now - self._started) * (self._total - done) / max(1, done)
        self._print(
            f"{self._name}: {done / max(1, self._total):.0%} ({done:,}/{self._total:,} "
            f"{self._unit}), about {left:.0f} s left"
        )

    def _print(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
