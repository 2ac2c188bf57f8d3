"""Words in several lengths -> one line at the bottom of a terminal, whole at any width.

It shows what it is told and decides nothing but what fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from rich.console import Console, RenderableType
from rich.progress import Progress, ProgressColumn, Task
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_LONGEST_BAR, _SHORTEST_BAR = 24, 8


class LiveLine(ExitStack):
    """A bar and words that renew themselves, from now on until it is left: a context manager.

    Until the first words are shown, `waiting` says what is going on, with the seconds it has taken.
    The last state stays standing.
    """

    def __init__(self, console: Console, *, total: int, done: int, waiting: str) -> None:
        super().__init__()
        self._progress = self.enter_context(Progress(_Fitting(console), console=console))
        self._task = self._progress.add_task(
            "", total=total, completed=done, wordings=(), waiting=waiting
        )

    def show(self, done: int, wordings: Sequence[str]) -> None:
        """Shows that `done` is reached, in the first of the wordings, longest first, that fits."""
        self._progress.update(self._task, completed=done, wordings=tuple(wordings))


class _Fitting(ProgressColumn):
    """The longest wording that fits the terminal, beside a bar where there is room."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def render(self, task: Task) -> RenderableType:
        """One line: the width is asked for every time, since a window may change."""
        width = self._console.width
        waiting = f"{task.fields['waiting']}, {task.elapsed or 0.0:.0f} s"
        wordings: tuple[str, ...] = task.fields["wordings"] or (waiting,)
        words = next((one for one in wordings if len(one) <= width), wordings[-1])
        room = min(_LONGEST_BAR, width - len(words) - 1)
        text = Text(words, no_wrap=True, overflow="ellipsis")
        if room < _SHORTEST_BAR:
            return text
        line = Table.grid(padding=(0, 1))
        line.add_row(ProgressBar(total=task.total, completed=task.completed, width=room), text)
        return line
