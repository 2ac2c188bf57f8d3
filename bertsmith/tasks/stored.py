"""`task.json` beside a model's weights -> the task, and what its examples were called.

With it a fine-tuned checkpoint is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bertsmith.checkpoints.places import TASK
from bertsmith.files import read_json
from bertsmith.tasks.task import AnyTask, from_json, to_json

__all__ = ["TASK", "Learned", "read_learned", "read_task", "task_json"]

_LEARNED = "learned"
_HEADER = "header"


@dataclass(frozen=True, kw_only=True)
class Learned:
    """What a task was learned from: other rows are read as these were."""

    name: str = ""
    """Of the examples, as of a task of GLUE; empty where they have none."""
    columns: Mapping[str, object] = field(default_factory=dict)
    """Where things stood in a row: the fields of `texts.TextColumns` and its like."""
    has_header: bool = True
    """Whether the columns had names; else they are numbers, of CSV and TSV."""

    def has_header_with(self, named: Iterable[str]) -> bool:
        """Whether other rows have one, of which these columns were named: by number or not."""
        return self.has_header or not all(map(str.isdigit, named))

    def told_texts(self, num_texts: int) -> str:
        """That it learned single texts and is given pairs, or the other way round; else empty.

        Of a model that does not say what it learned nothing is known.
        """
        said = self.columns.get("texts")
        texts = [said] if isinstance(said, str) else said
        if not isinstance(texts, list | tuple) or len(texts) in (0, num_texts):
            return ""
        kinds = ("single texts", "pairs of texts")
        learned, given = kinds[len(texts) > 1], kinds[num_texts > 1]
        columns = ", ".join(map(str, texts))
        return f"the model learned from {learned} ({columns}), and reads {given} here"


def task_json(task: AnyTask, learned: Learned) -> dict[str, object]:
    """What stands in the file, as JSON values."""
    said: dict[str, object] = {"name": learned.name, "columns": dict(learned.columns)}
    if not learned.has_header:
        said[_HEADER] = False
    return {**to_json(task), _LEARNED: said}


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
            f"imported unasked: to run that code, name it with --task-class {content['kind']} (in "
            f"Python: Predictor.load(..., task_class={content['kind']!r}))"
        )
    try:
        return from_json({name: each for name, each in content.items() if name != _LEARNED})
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} names no task that this version knows: {error}") from error


def read_learned(directory: Path) -> Learned:
    """What the file says of the examples; nothing of what it does not say.

    Raises ValueError, naming the file, for what is no such thing.
    """
    path = directory / TASK
    said = read_json(path).get(_LEARNED) if path.is_file() else None
    if said is None:
        return Learned()
    if isinstance(said, dict):
        name, columns = said.get("name", ""), said.get("columns", {})
        if isinstance(name, str) and isinstance(columns, dict):
            return Learned(name=name, columns=columns, has_header=said.get(_HEADER) is not False)
    raise ValueError(f"{path}: {_LEARNED} must hold a name and columns, found {said!r:.80}")
