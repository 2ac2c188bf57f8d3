"""A task class of a person's own, named `module:Class` -> a task; a task -> JSON values, and back.

Here alone code is imported by a name, and only by one that somebody typed, or that stands in the
request of a run that they go on with. What a checkpoint says is never imported unasked.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar, cast, runtime_checkable

from bertsmith.files import read_json
from bertsmith.tasks.own_faults import failure, require_head
from bertsmith.tasks.stored import TASK
from bertsmith.tasks.task import Encoded, Task

ExampleT = TypeVar("ExampleT")
EncodedT = TypeVar("EncodedT", bound=Encoded)
AnswerT = TypeVar("AnswerT")

_NEEDED = ("read", "of", "head", "encode", "decode", "score")
_EXPECTED = "module:Class, as in emphasis:Emphasis for a file emphasis.py here"


class OwnTask(Task[ExampleT, EncodedT, AnswerT], Protocol[ExampleT, EncodedT, AnswerT]):
    """What a class of one's own has beside a task's four: a frozen dataclass of plain values."""

    @classmethod
    def read(cls, path: Path) -> Sequence[ExampleT]:
        """The examples of a file; raises ValueError, with the place, for what is none."""

    @classmethod
    def of(cls, examples: Sequence[ExampleT], max_tokens: int) -> Self:
        """The task that these examples, to train on, are of."""


@runtime_checkable
class ReadsText(Protocol):
    """What a class of one's own may have beside, to be asked of texts outside any file."""

    @classmethod
    def read_text(cls, text: str) -> object:
        """The example that a text is; raises ValueError for what is none."""


AnyOwnTask = OwnTask[Any, Any, Any]
"""Of what its examples and answers are is known to the class alone."""


def imported_class(name: str) -> type[AnyOwnTask]:
    """The class that `module:Class` names, looked for in the current directory first.

    Raises ValueError for what is no such name, no frozen dataclass or lacks a part of `OwnTask`,
    and for a module that raises anything.
    """
    module, colon, wanted = name.partition(":")
    if not colon or not all(part.isidentifier() for part in (*module.split("."), wanted)):
        raise ValueError(f"--task-class {name!r} names no class: expected {_EXPECTED}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    found_at = _spec(module)
    if found_at is None:
        raise ValueError(
            f"--task-class {name}: no module {module!r} in {here} or on Python's path; expected "
            f"{_EXPECTED}"
        )
    try:
        found = vars(importlib.import_module(module))
    except Exception as error:
        raise failure(f"{name}: importing it", error, {str(found_at.origin)}) from error
    if wanted not in found:
        near = difflib.get_close_matches(wanted, found, n=1)
        raise ValueError(
            f"--task-class {name}: {module} has no {wanted!r}"
            + (f"; did you mean {near[0]!r}?" if near else "")
        )
    return _checked(found[wanted], name)


def own_to_json(task: AnyOwnTask, name: str) -> dict[str, object]:
    """The task as JSON values; its kind is the name of its class.

    Raises ValueError for fields that do not come back as they were.
    """
    fields = dataclasses.asdict(cast(Any, task))
    try:
        value: dict[str, Any] = {"kind": name, "fields": json.loads(json.dumps(fields))}
        is_whole = _from_json(value, type(task)) == task
    except TypeError:
        is_whole = False
    if not is_whole:
        raise ValueError(
            f"--task-class {name}: its fields must be texts, numbers, booleans, None and tuples of "
            f"them, or task.json could not hold them; found {fields!r:.200}"
        )
    return value


def read_own_task(directory: Path, name: str) -> AnyOwnTask:
    """The task of a checkpoint that was learned by the class `name`, which is imported.

    Raises ValueError for a checkpoint of another task, and as `imported_class` and `require_head`
    do.
    """
    path = directory / TASK
    if not path.is_file():
        raise ValueError(f"{directory} has no {TASK}, which says how its task reads examples")
    value = read_json(path)
    if value.get("kind") != name:
        raise ValueError(f"{path} is of {value.get('kind')}, and not of --task-class {name}")
    task = _from_json(value, imported_class(name))
    require_head(task)
    return task


def _spec(module: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(module)
    except ModuleNotFoundError:  # of the package that it would be in
        return None


def _checked(found: object, name: str) -> type[AnyOwnTask]:
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        raise ValueError(f"--task-class {name}: must be a frozen dataclass, found {found!r:.80}")
    if missing := [part for part in _NEEDED if part not in dir(found)]:
        raise ValueError(
            f"--task-class {name} has no {', '.join(missing)}; a task has {', '.join(_NEEDED)} "
            f"(bertsmith/tasks/imported.py says what each is)"
        )
    return cast(type[AnyOwnTask], found)


def _from_json(value: Mapping[str, Any], kind: type[AnyOwnTask]) -> AnyOwnTask:
    fields = {name: _plain(each) for name, each in value["fields"].items()}
    try:
        return cast(Any, kind)(**fields)  # type: ignore[no-any-return]
    except TypeError as error:
        raise ValueError(f"{kind.__name__} has other fields than {TASK}: {error}") from error


def _plain(value: object) -> object:
    """Lists as the tuples they were."""
    return tuple(map(_plain, value)) if isinstance(value, list | tuple) else value
