"""Where examples come from, as options and as JSON values -> what is to be learned.

The one place where a command's options become labelled examples; whatever fine-tunes or evaluates
takes these.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from bertsmith.commands.finetune_options import TaskFiles
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks import classify, glue
from bertsmith.tasks.classify import TextAnswer, TextExample
from bertsmith.tasks.glue import GlueTask, Split
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import Classification, EncodedTexts

_MOST_NOTES = 3


def source_of(files: TaskFiles) -> dict[str, object]:
    """The options as JSON values, for a run's record.

    Raises ValueError for options that name no examples, FileNotFoundError for no directory.
    """
    if files.glue is None or files.task is None:
        raise ValueError("name the examples: --glue DIR --task RTE (or another task of GLUE)")
    if not files.glue.is_dir():
        raise FileNotFoundError(f"{files.glue}: no such directory of GLUE's files")
    task = glue.task_named(files.task)
    return {"glue": str(files.glue.resolve()), "task": task.name}


def learning_set(
    source: Mapping[str, object], max_tokens: int
) -> LearningSet[TextExample, EncodedTexts, TextAnswer]:
    """Reads the training and Dev examples that `source_of` names, and the task they belong to.

    Raises as `glue.read` does.
    """
    row = glue.task_named(str(source["task"]))
    told: list[str] = []
    train, dev = (_read(source, row, split, told) for split in ("train", "dev"))
    task = Classification(scheme=row.scheme, max_tokens=max_tokens, metrics=row.metrics)
    return LearningSet(
        name=row.name,
        task=task,
        task_json=task_json(task, Learned(name=row.name, columns={"texts": [*row.texts]})),
        train=train,
        dev=dev,
        options=shlex.join(["--glue", str(source["glue"]), "--task", row.name]),
        train_balance=classify.balance(train, row.scheme),
        dev_balance=classify.balance(dev, row.scheme),
        notes=_shortened(told),
    )


def labelled_examples(
    source: Mapping[str, object], split: Split
) -> tuple[list[TextExample], tuple[str, ...]]:
    """One split alone, and what was seen while reading."""
    told: list[str] = []
    examples = _read(source, glue.task_named(str(source["task"])), split, told)
    return examples, _shortened(told)


def _read(
    source: Mapping[str, object], row: GlueTask, split: Split, told: list[str]
) -> list[TextExample]:
    return glue.read(Path(str(source["glue"])), row, split, told.append)


def _shortened(told: list[str]) -> tuple[str, ...]:
    """The first few notes, and how many more there were."""
    more = len(told) - _MOST_NOTES
    return (*told[:_MOST_NOTES], *([f"and {more:,} more of this kind"] if more > 0 else []))
