"""Where examples come from, as options and as JSON values -> what is to be learned.

The one place where a command's options become labelled examples; whatever fine-tunes or evaluates
takes these. What is particular to a kind of them stands in `commands/sources`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bertsmith.commands.sources.benchmark import GlueFiles
from bertsmith.commands.sources.choosing import ChoiceFiles
from bertsmith.commands.sources.files import FileSource, Kind
from bertsmith.commands.sources.own_class import OwnClassFiles
from bertsmith.commands.sources.source import Labelled, Source
from bertsmith.commands.sources.spans import SpanFiles
from bertsmith.commands.sources.tagging import TaggedFiles
from bertsmith.commands.sources.texts import TextFiles
from bertsmith.commands.task_files import Split, TaskFiles, TaskValues, given, options_of
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks import glue, glue_hub
from bertsmith.tasks.glue import GlueTask

Begin = Callable[[TaskFiles, TaskValues], Source]


def _of_files(kind: Callable[[TaskFiles, TaskValues], Kind[Any, Any, Any]]) -> Begin:
    """What begins a source of such files. Raises FileNotFoundError for one that is not there."""

    def begin(files: TaskFiles, values: TaskValues) -> Source:
        own = kind(files, values)
        path = vars(files)[own.option]
        if not isinstance(path, Path):
            raise ValueError(f"name the file to read with --{own.option}")
        for each in (path, files.dev):
            if each is not None and not each.exists():
                raise FileNotFoundError(f"{each}: no such file")
        return FileSource(own, path, files)

    return begin


_KINDS: dict[str, Begin] = {
    "glue": GlueFiles.of,
    "squad": _of_files(SpanFiles),
    "tagged": _of_files(TaggedFiles),
    "choices": _of_files(ChoiceFiles),
    "texts": _of_files(TextFiles),
    "task_class": _of_files(OwnClassFiles),
}
"""By the option that names the examples."""


_BOTH = "mnli"
_WITH_MNLI = ("MNLI-mm", "AX")


def source_of(files: TaskFiles, values: TaskValues | None = None) -> dict[str, object]:
    """The options as JSON values, for a run's record.

    Raises ValueError for options that name no examples, or more than one kind, and for one that
    says nothing of that kind; FileNotFoundError for what is not there.
    """
    source = {**given(files), **given(values or TaskValues())}
    _named(source)
    return source


def name_of(source: Mapping[str, object]) -> str:
    """What to call what is learned, in a directory's name too."""
    return _named(source).name


def learning_set(
    source: Mapping[str, object], max_tokens: int | None
) -> LearningSet[Any, Any, Any]:
    """Reads the examples that `source_of` names, and the task they belong to.

    Raises FileNotFoundError and ValueError, with the place, for what cannot be read.
    """
    return _named(source).learning_set(max_tokens)


def labelled_examples(
    source: Mapping[str, object], task: object, split: Split | None
) -> Labelled[Any, Any, Any]:
    """What a model of this task is to be scored on; raises as `learning_set` does."""
    return _named(source).labelled(task, split)


def scored_together(source: Mapping[str, object]) -> tuple[list[dict[str, object]], list[str]]:
    """What is scored of a source, and what is not there to be.

    Of MNLI's own name both of its sets, and the diagnostics, which its model answers too.
    """
    if "glue" not in source or str(source.get("task")).lower() != _BOTH:
        return [dict(source)], []
    place = Path(str(source["glue"]))
    together, missing = [{**source, "task": "MNLI-m"}], []
    for name in _WITH_MNLI:
        if fault := _unscored(place, glue.task_named(name)):
            missing.append(f"{name} is not scored: {fault}")
        else:
            together.append({**source, "task": name})
    return together, missing


def _unscored(place: Path, task: GlueTask) -> str:
    """Why there are no labelled examples of the task; empty where there are."""
    if not place.is_dir() or glue_hub.is_hub_layout(place, glue.task_named(_BOTH)):
        return "" if task.name in glue_hub.TASKS else "the Hub has no labels of it"
    try:
        glue.file_of(place, task, "dev")
    except FileNotFoundError as error:
        return str(error)
    return ""


def _named(source: Mapping[str, object]) -> Source:
    files, values = options_of(source)
    kinds = [name for name in _KINDS if name in source]
    if not kinds:
        raise ValueError(
            "name the examples: --glue DIR --task RTE (or another task of GLUE), or a file of your "
            "own with --texts, --tagged, --squad or --choices (bertsmith finetune --help)"
        )
    if len(kinds) > 1:
        named = " and ".join(f"--{name.replace('_', '-')}" for name in kinds)
        raise ValueError(f"{named} name examples of different kinds: leave all but one out")
    return _KINDS[kinds[0]](files, values)
