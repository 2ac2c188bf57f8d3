"""`task.json` beside a model's weights -> the task: with it a fine-tuned checkpoint is whole."""

from __future__ import annotations

from pathlib import Path

from bertsmith.files import read_json
from bertsmith.tasks.task import AnyTask, from_json

TASK = "task.json"
"""Holds what `task.to_json` gives."""


def read_task(directory: Path) -> AnyTask | None:
    """The task of a checkpoint; None where its directory names none.

    Raises ValueError, naming the file, for one that cannot be read.
    """
    path = directory / TASK
    if not path.is_file():
        return None
    content = read_json(path)
    if ":" in str(content.get("kind")):
        raise ValueError(
            f"{path} names a task class of somebody's own, {content['kind']}, which is not "
            f"imported unasked: to run that code, name it with --task-class {content['kind']}"
        )
    try:
        return from_json(content)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} names no task that this version knows: {error}") from error
