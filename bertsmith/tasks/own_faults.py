"""What a task class of a person's own raises, or gives amiss -> one line with class and method.

The line is a ValueError's, which the command line tells without a traceback. A class of this
package has no such faults: what it raises comes through. It imports no class, and knows no task.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Collection, Iterator, Sized
from pathlib import Path
from typing import Any

from bertsmith.model.task import TaskHeadConfig
from bertsmith.reading.counted import counted
from bertsmith.tasks.task import Task

_LONGEST = 300
"""Characters of an error that are told."""


def is_own(kind: type[object]) -> bool:
    """Whether a class of a task is no part of this package."""
    return kind.__module__.partition(".")[0] != __name__.partition(".")[0]


@contextlib.contextmanager
def failures_named(kind: type[object], method: str) -> Iterator[None]:
    """Makes a ValueError, with class, method and place, of whatever a class of one's own raises."""
    try:
        yield
    except Exception as error:
        if not is_own(kind):
            raise
        raise failure(f"{_name(kind)}: its {method}", error, _files(kind)) from error


def failure(what: str, error: Exception, files: Collection[str]) -> ValueError:
    """The error for what failed behind --task-class; a line of one of `files` is told with it.

    A ValueError is also how a class refuses what it reads: there the class may be right.
    """
    told = " ".join(str(error).split())[:_LONGEST]
    to_mend = "what it was given, or " if isinstance(error, ValueError | OSError) else ""
    return ValueError(
        f"--task-class {what} failed with {type(error).__name__}: {told}{_place(error, files)}; "
        f"mend {to_mend}the class (BERTSMITH_TRACEBACK=1 shows the way there)"
    )


def wrong_result(kind: type[object], method: str, found: str, expected: str) -> ValueError:
    """The error for what a method of one's own gave, and what it must give."""
    return ValueError(
        f"--task-class {_name(kind)}: its {method} gave {found}, expected {expected}: mend the "
        f"class"
    )


def require_head(task: Task[Any, Any, Any]) -> None:
    """Raises ValueError for a task whose head fails, or is none."""
    with failures_named(type(task), "head"):
        head: object = task.head
    if not isinstance(head, TaskHeadConfig):
        raise wrong_result(type(task), "head", f"{head!r:.60}", "a TaskHeadConfig")


def require_one_each(kind: type[object], answers: object, num_examples: int) -> None:
    """Raises ValueError where `decode` gave no list, or more or fewer answers than examples."""
    examples = counted(num_examples, "example")
    if not isinstance(answers, Sized):
        expected = f"a list with an answer to each of {examples}"
        raise wrong_result(kind, "decode", type(answers).__name__, expected)
    if len(answers) != num_examples:
        found = f"{counted(len(answers), 'answer')} to {examples}"
        raise wrong_result(kind, "decode", found, "one to each")


def _name(kind: type[object]) -> str:
    """As --task-class names it."""
    return f"{kind.__module__}:{kind.__qualname__}"


def _files(kind: type[object]) -> set[str]:
    """Where the class stands, and those of a person's own that it is made from."""
    modules = [sys.modules.get(each.__module__) for each in kind.__mro__ if is_own(each)]
    # What is built in, or was typed into a notebook, has no file.
    found = [vars(module).get("__file__") for module in modules if module is not None]
    return {str(file) for file in found if file is not None}


def _place(error: Exception, files: Collection[str]) -> str:
    """The last line of the files on the way to the error; empty where there is none."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename in files]
    if not frames:
        return ""
    path, here = Path(frames[-1].filename), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f" ({shown}:{frames[-1].lineno})"
