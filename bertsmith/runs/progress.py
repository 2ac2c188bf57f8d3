"""Steps as they happen -> a live line on a terminal, or plain lines elsewhere.

It shows what it is told and decides nothing. On a terminal: a bar, the losses, beside the
unigram-entropy line where there is one, the rate, the time left; on a narrow one the steps done,
the loss, the speed and the time left. In a file or a pipe: one line every so many steps.
"""

from __future__ import annotations

import errno
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console

from bertsmith.runs.live_line import LiveLine

_RATE_WINDOW = 50


@dataclass(frozen=True, kw_only=True)
class View:
    """What a person wants to see of one step."""

    step: int
    """Finished updates."""
    losses: dict[str, float]
    """Mean loss of each objective, nats."""
    accuracies: dict[str, float]
    """Accuracy of each objective that has one."""
    learning_rate: float
    """The rate of this update."""
    tokens: int
    """Real tokens since the view before, over all processes."""
    seconds: float
    """Seconds they took, evaluations and checkpoints not counted."""
    score: str = ""
    """The newest score on examples that are not learned, in words; empty before the first one."""


class Display(Protocol):
    """A place where progress is shown."""

    def step(self, view: View) -> None:
        """Shows a finished step."""

    def note(self, text: str) -> None:
        """Shows a sentence that stays."""


class Pace:
    """Views -> real tokens per second and time left, over the latest ones."""

    def __init__(self, num_steps: int, done: int) -> None:
        self._num_steps = num_steps
        self._latest: deque[tuple[int, int, float]] = deque(maxlen=_RATE_WINDOW)
        self._before = done
        self._num_added = 0

    def add(self, view: View) -> tuple[float, float]:
        """(tokens per second, seconds left)."""
        self._latest.append((view.step - self._before, view.tokens, view.seconds))
        self._before = view.step
        self._num_added += 1
        # The first step of a process makes kernels and says nothing about the others.
        latest = list(self._latest)[1:] if 1 < self._num_added <= _RATE_WINDOW else self._latest
        steps, tokens, seconds = (sum(column) for column in zip(*latest, strict=True))
        seconds = max(1e-9, seconds)
        return tokens / seconds, (self._num_steps - view.step) * seconds / steps


class PlainDisplay(ExitStack):
    """One line every `every` steps, for logs and pipes."""

    def __init__(
        self, console: Console, num_steps: int, done: int, unigram: float | None, every: int
    ) -> None:
        super().__init__()
        self._console, self._num_steps, self._every = console, num_steps, every
        self._unigram, self._pace = unigram, Pace(num_steps, done)

    def step(self, view: View) -> None:
        """Prints every `every`th step and the last."""
        rate, left = self._pace.add(view)
        if view.step % self._every == 0 or view.step == self._num_steps:
            line = wordings(view, self._unigram, rate)[0]
            self.note(f"step {view.step:,}/{self._num_steps:,}  {line}  {duration(left)} left")

    def note(self, text: str) -> None:
        """Prints the sentence."""
        say(self._console, text)


class LiveDisplay(ExitStack):
    """A bar and one line of figures that renew themselves at the bottom of a terminal."""

    def __init__(self, console: Console, num_steps: int, done: int, unigram: float | None) -> None:
        super().__init__()
        self._console, self._num_steps = console, num_steps
        self._unigram, self._pace = unigram, Pace(num_steps, done)
        waiting = "the first step is slow: kernels are being made"
        line = LiveLine(console, total=num_steps, done=done, waiting=waiting)
        self._line = self.enter_context(line)

    def step(self, view: View) -> None:
        """Renews bar and figures."""
        rate, left = self._pace.add(view)
        ahead = f"{duration(left)} left"
        figures = wordings(view, self._unigram, rate)
        count, share = f"{view.step:,}/{self._num_steps:,}", f"{view.step / self._num_steps:.0%}"
        counted = [f"{count}  {ahead}  {line}" for line in figures[:-1]]
        self._line.show(
            view.step, [*counted, *(f"{share}  {ahead}  {line}" for line in figures[-2:])]
        )

    def note(self, text: str) -> None:
        """Prints the sentence above the live line.

        A terminal that closes under it ends no run: the signal that tells so asks it to stop.
        """
        try:
            say(self._console, text)
        except OSError as error:
            if error.errno != errno.EIO:
                raise


def display(
    console: Console, *, num_steps: int, done: int, unigram: float | None, every: int
) -> LiveDisplay | PlainDisplay:
    """A live display on a terminal, plain lines elsewhere; `unigram` is a line to compare with."""
    if console.is_terminal:
        return LiveDisplay(console, num_steps, done, unigram)
    return PlainDisplay(console, num_steps, done, unigram, every)


def wordings(view: View, unigram: float | None, tokens_per_second: float) -> list[str]:
    """The figures of a step in one line: all of them, then without what is needed least."""
    losses = [f"{_SHORT.get(name, name)} {loss:.3f}" for name, loss in view.losses.items()]
    shares = [
        f"{loss} ({view.accuracies[name]:.0%})" if name in view.accuracies else loss
        for loss, name in zip(losses, view.losses, strict=True)
    ]
    score = [view.score] if view.score else []
    line = [] if unigram is None else [f"unigram {unigram:.3f}"]
    speed = f"{tokens_per_second:,.0f} tokens/s"
    return [
        "  ".join(parts)
        for parts in (
            [*shares, *score, *line, f"lr {view.learning_rate:.2e}", speed],
            [*shares, *score, *line, speed],
            [*losses, *score, *line, speed],
            [*losses, *score, speed],
            *([losses[0], *each, speed] for each in ([score, []] if score else [[]])),
            [losses[0]],
        )
    ]


def say(console: Console, text: str) -> None:
    """Prints a sentence letter by letter: no markup, no colours, no breaking of lines."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Seconds as a person says them: 40 s, 12 min, 3 h 20 min, 4 d 2 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if days < 100 else f"{days:,} days"


_SHORT = {"masked_lm": "mlm", "next_sentence": "nsp"}
