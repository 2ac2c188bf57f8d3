"""A stage of work with a known end -> a bar on a terminal, a few plain lines elsewhere.

It shows what it is told and decides nothing.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from rich.console import Console

from bertsmith.runs.live_line import LiveLine
from bertsmith.runs.progress import duration, say

_SECONDS_BETWEEN_LINES = 10.0


class Stage(ExitStack):
    """Progress from 0 to `total` units; a context manager.

    Time left is measured from the first `reach` on, so that a stage that goes on after a stop
    counts from where it went on. `waiting` says what happens before it.
    """

    def __init__(
        self, console: Console, name: str, unit: str, total: int, waiting: str = "starting"
    ) -> None:
        super().__init__()
        self._console, self._name, self._unit, self._total = console, name, unit, total
        self._started = self._shown = time.perf_counter()
        self._first: tuple[float, int] | None = None
        self._line: LiveLine | None = None
        if console.is_terminal:
            line = LiveLine(console, total=total, done=0, waiting=f"{name}: {waiting}")
            self._line = self.enter_context(line)
        else:
            self.push(self._end)

    def reach(self, done: int, *facts: str) -> None:
        """Shows that `done` units of the total are finished.

        `facts` say it in other words, what is needed least first: a narrow terminal drops that.
        """
        facts = facts or (f"{done:,}/{self._total:,} {self._unit}",)
        now = time.perf_counter()
        began, first = self._first = self._first or (now, done)
        ahead, left = f"{self._name}: {done / max(1, self._total):.0%}", ""
        if done > first:
            seconds = (now - began) * (self._total - done) / (done - first)
            left = f", about {duration(seconds)} left"
        if self._line is not None:
            shown = (facts[start:] for start in range(len(facts)))
            wordings = [f"{ahead} ({', '.join(some)}){left}" for some in shown]
            self._line.show(done, [*wordings, f"{ahead}{left}"])
        elif now - self._shown >= _SECONDS_BETWEEN_LINES:
            self._shown = now
            self._print(f"{ahead} ({', '.join(facts)}){left}")

    def _end(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None and self._first is not None:
            self._print(f"{self._name}: done in {time.perf_counter() - self._started:.1f} s")

    def _print(self, line: str) -> None:
        say(self._console, line)
