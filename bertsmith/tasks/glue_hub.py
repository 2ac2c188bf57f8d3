"""GLUE as the Hub has it -> labelled texts in the spelling of the benchmark's own files.

Read through the `datasets` library, by the data set's id or from a directory in its layout. There
tasks are configurations, labels are numbers with names, and some columns are called otherwise.

Source: the data set nyu-mll/glue of the Hugging Face Hub.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.glue import GlueTask
from bertsmith.tasks.own.fields import text_of

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_UNLABELLED = -1
_CARD = "README.md"
"""Where a data set says, in its block `configs`, which files belong to which set."""
_CONFIGS = re.compile(r"^configs:.*?(?=^[A-Za-z]|\Z)", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class HubTask:
    """Where a task stands in the data set; its label is the column `label`."""

    config: str
    texts: tuple[str, ...]
    splits: tuple[str, str] = ("train", "validation")
    """What training and Dev examples are called; empty for none."""


_PAIR = ("sentence1", "sentence2")
TASKS: Mapping[str, HubTask] = {
    "CoLA": HubTask(config="cola", texts=("sentence",)),
    "SST-2": HubTask(config="sst2", texts=("sentence",)),
    "MRPC": HubTask(config="mrpc", texts=_PAIR),
    "STS-B": HubTask(config="stsb", texts=_PAIR),
    "QQP": HubTask(config="qqp", texts=("question1", "question2")),
    "MNLI-m": HubTask(
        config="mnli", texts=("premise", "hypothesis"), splits=("train", "validation_matched")
    ),
    "MNLI-mm": HubTask(
        config="mnli", texts=("premise", "hypothesis"), splits=("", "validation_mismatched")
    ),
    "QNLI": HubTask(config="qnli", texts=("question", "sentence")),
    "RTE": HubTask(config="rte", texts=_PAIR),
    "WNLI": HubTask(config="wnli", texts=_PAIR),
}
"""By the names of `glue.TASKS`."""


def is_hub_layout(place: Path, task: GlueTask) -> bool:
    """Whether a directory holds the task's Parquet files as the Hub's data set does."""
    return task.name in TASKS and any((place / TASKS[task.name].config).glob("*.parquet"))


def is_hub_id(place: str) -> bool:
    """Whether it could be the id of a data set."""
    return bool(_HUB_ID.fullmatch(place))


def read(place: str, task: GlueTask, split: str) -> list[TextExample]:
    """The training or Dev examples of a task: `split` is train or dev.

    Raises ModuleNotFoundError where `datasets` is missing; ValueError for what it cannot load, a
    copy that is cut or damaged among it, and for labels that are not the task's.
    """
    if task.name not in TASKS:
        raise ValueError(f"{task.name} has no labels to learn or to score: it is only answered")
    there = TASKS[task.name]
    name = there.splits[("train", "dev").index(split)]
    if not name:
        raise ValueError(f"{task.name} has no {split} set: it is answered by the model of MNLI-m")
    try:
        import yaml
        from datasets import ClassLabel, load_dataset
        from datasets.exceptions import DatasetsError
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "data sets of the Hub are read through the `datasets` library: pip install "
            "'bertsmith[hub]'; or give the directory of GLUE's own files"
        ) from error
    try:
        rows = load_dataset(place, there.config, split=name)
    except (OSError, ValueError, DatasetsError, yaml.YAMLError) as error:
        raise ValueError(
            f"{place}: cannot load {there.config}, {name}{_why(place, there, error)}"
        ) from error
    label = rows.features.get("label")
    names = label.names if isinstance(label, ClassLabel) else None
    return examples_of(rows, task, names, f"{place} {there.config} {name}")


def _why(place: str, there: HubTask, error: Exception) -> str:
    """What is wrong, and what to do."""
    directory = Path(place)
    cause = error.__cause__ or error  # of what happens on the way the library says only that it did
    reason = f" ({' '.join(str(cause).split()):.200})"
    if not directory.is_dir():
        return f"{reason}; without a network give the directory of GLUE's own files"
    card = directory / _CARD
    text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    block = _CONFIGS.search(text)
    if block and re.search(rf"""config_name["']?\s*:\s*["']?{there.config}\b""", block[0]):
        return f"{reason}: this copy is not whole or not sound; download the data set anew"
    lacks = f"it has no {_CARD} with a `configs` block"
    if card.is_file():
        lacks = f"its {_CARD} has no `configs` block that names {there.config}"
    return (
        f": {lacks}, which says what files belong to which set; put the data set's own {_CARD} "
        f"there"
    )


def examples_of(
    rows: Iterable[Mapping[str, object]],
    task: GlueTask,
    names: Sequence[str] | None,
    place: str,
) -> list[TextExample]:
    """Rows as examples; `names` are those of the label numbers 0, 1, ..."""
    spellings = _spellings(task, names, place)
    columns = TASKS[task.name].texts
    found = []
    for number, row in enumerate(rows, 1):
        at = f"{place}: row {number}"
        if missing := [name for name in (*columns, "label") if name not in row]:
            raise ValueError(f"{at}: no column {missing[0]!r}, found {', '.join(map(repr, row))}")
        texts = tuple(text_of(row[name], f"{at}: column {name!r}") for name in columns)
        label = _label(row["label"], spellings, at)
        found.append(TextExample(texts=texts, labels=(label,), place=at))
    return found


def _spellings(task: GlueTask, names: Sequence[str] | None, place: str) -> Sequence[str]:
    """How the benchmark's files spell the numbers 0, 1, ...; none for a number that is the label.

    Where they have words, they are the names of the Hub; else the numbers themselves.
    """
    known = task.scheme.names
    if task.scheme.problem == "regression":
        return ()
    if names is not None and set(names) == set(known):
        return names
    numbers = tuple(map(str, range(len(known))))
    if known == numbers and (names is None or len(names) == len(known)):
        return numbers
    found = "nothing" if names is None else ", ".join(names)
    raise ValueError(
        f"{place}: label numbers must be named {', '.join(known)} in some order, found {found}"
    )


def _label(value: object, spellings: Sequence[str], place: str) -> str:
    if not spellings and isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) and 0 <= value < len(spellings):
        return spellings[value]
    told = "is the mark of none" if value == _UNLABELLED else "is none of the task's"
    raise ValueError(f"{place}: label {value!r} {told}, expected 0 to {len(spellings) - 1}")
