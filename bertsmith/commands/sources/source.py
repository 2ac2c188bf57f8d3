"""What every source of labelled examples gives: a set to learn from, and examples to be scored on.

It knows no kind of task and no format of files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol

from bertsmith.commands.task_files import Split, TaskFiles, TaskValues, given
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, LearningSet
from bertsmith.tasks.task import Task

_MOST_NOTES = 3


@dataclass(frozen=True, kw_only=True)
class Labelled(Generic[ExampleT, EncodedT, AnswerT]):
    """Examples, and the task of a model that answers them."""

    name: str
    """Which they are, for a person."""
    task: Task[ExampleT, EncodedT, AnswerT]
    examples: Sequence[ExampleT]
    notes: tuple[str, ...]
    """What was seen while reading, a sentence each."""


class Source(Protocol):
    """Examples that were asked for; what kind they are of is known when they are read (Any)."""

    @property
    def name(self) -> str:
        """What to call what is learned of it, in a directory's name too."""

    def learning_set(self, max_tokens: int | None) -> LearningSet[Any, Any, Any]:
        """Reads what is to be learned; without `max_tokens` the kind's own.

        Raises FileNotFoundError and ValueError, with the place, for what cannot be read.
        """

    def labelled(self, task: object, split: Split | None) -> Labelled[Any, Any, Any]:
        """Reads one split for a model's task; without one, what is to be scored of these files.

        Raises as `learning_set` does, and ValueError for a task of another kind.
        """


def require_read(
    files: TaskFiles, values: TaskValues, read: Sequence[str], chosen: str, values_of: str
) -> None:
    """Raises ValueError for an option that the examples named by `chosen` would pass over.

    `read` are the names of those that do not, `values_of` the values among them.
    """
    known = {chosen, *read, *values_of.split()}
    unread = [name for name in (*given(files), *given(values)) if name not in known]
    if not unread:
        return
    option, taken = (each.replace("_", "-") for each in (unread[0], chosen))
    others = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(known - {chosen}))
    raise ValueError(
        f"--{option} says nothing of the examples of --{taken}, which take {others}: leave it out"
    )


def wrong_kind(task: object, option: str, what: str) -> ValueError:
    """The error for a model that learned something else than the examples of `--option` hold."""
    return ValueError(
        f"the model learned {type(task).__name__}, and --{option} holds {what}: name examples of "
        f"its own kind"
    )


def shortened(told: Sequence[str]) -> tuple[str, ...]:
    """The first few notes, and how many more there were."""
    more = len(told) - _MOST_NOTES
    return (*told[:_MOST_NOTES], *([f"and {more:,} more of this kind"] if more > 0 else []))


def chosen_values(values: TaskValues, *names: str) -> dict[str, Any]:
    """Those of the named values that were given, by name."""
    found = dataclasses.asdict(values)
    return {name: found[name] for name in names if found[name] is not None}
