"""`--task-class`: a task class of a person's own, which reads its own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertsmith.commands.sources.source import require_read, wrong_kind
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.tasks.imported import AnyOwnTask, imported_class, own_to_json
from bertsmith.tasks.own.files import OwnFile, whole
from bertsmith.tasks.own_faults import failures_named, require_head
from bertsmith.tasks.task import Task

_OwnTask = Task[Any, Any, Any]
_DEFAULT_TOKENS = 128


@dataclass(frozen=True)
class OwnClassFiles:
    """Files that a class of one's own reads."""

    files: TaskFiles
    values: TaskValues

    option = "examples"
    max_tokens = _DEFAULT_TOKENS

    def __post_init__(self) -> None:
        """Refuses options that would be passed over."""
        require_read(self.files, self.values, ("examples", "dev"), "task_class", "")

    @property
    def class_name(self) -> str:
        """`module:Class`."""
        return self.files.task_class or ""

    def read(self, path: Path, task: object) -> OwnFile[Any]:
        """As the class reads it."""
        kind = imported_class(self.class_name)
        with failures_named(kind, "read"):
            examples = tuple(kind.read(path))
        return whole(path, examples)

    def contents(self, examples: Sequence[Any]) -> list[str]:
        """As Python shows them."""
        return [repr(example) for example in examples]

    def begin(self, files: Sequence[OwnFile[Any]], max_tokens: int) -> AnyOwnTask:
        """As the class makes it of the examples to train on.

        Raises ValueError without a file to evaluate on: what examples share is not known here.
        """
        if len(files) < 2:
            raise ValueError(
                "how examples of a class of your own can be divided is not known: give the file to "
                "evaluate on with --dev"
            )
        kind = imported_class(self.class_name)
        with failures_named(kind, "of"):
            task = kind.of(files[0].examples, max_tokens)
        require_head(task)
        return task

    def fitting(self, task: object) -> AnyOwnTask:
        """The task of a model that learned by this class."""
        if not isinstance(task, imported_class(self.class_name)):
            raise wrong_kind(task, "examples", f"what {self.class_name} reads")
        return task

    def to_json(self, task: _OwnTask, name: str) -> Mapping[str, object]:
        """The name of the class, and the task's fields."""
        return own_to_json(self.fitting(task), self.class_name)

    def answerable(self, examples: Sequence[Any], task: _OwnTask) -> AnyOwnTask:
        """As it is: what it cannot answer is known to the class, whose `encode` refuses it."""
        return self.fitting(task)

    def balance(self, examples: Sequence[Any], task: _OwnTask) -> str:
        """Who read them."""
        return f"read by {self.class_name}"

    def labels(self, examples: Sequence[Any], task: _OwnTask) -> list[tuple[str, ...]]:
        """None: they are known to the class alone."""
        return [()] * len(examples)

    def notes(self, file: OwnFile[Any], task: _OwnTask) -> Sequence[str]:
        """None."""
        return ()

    def set_notes(self, train: Sequence[Any], dev: Sequence[Any]) -> Sequence[str]:
        """None."""
        return ()
