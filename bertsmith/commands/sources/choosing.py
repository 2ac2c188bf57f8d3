"""`--choices`: questions with choices -> the right one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.commands.sources.files import SHARED_OPTIONS, learned_header, require_columns
from bertsmith.commands.sources.source import require_read, wrong_kind
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.reading import tables
from bertsmith.tasks.choose import ChoiceAnswer, ChoiceExample
from bertsmith.tasks.own import choices
from bertsmith.tasks.own.choices import ChoiceColumns
from bertsmith.tasks.own.files import FileOptions, OwnFile
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import EncodedTexts, MultipleChoice, Task

_Chooser = Task[ChoiceExample, EncodedTexts, ChoiceAnswer]
_COLUMNS = ("text_columns", "begun_column", "choice_columns", "label_column", "key_column")
_OPTIONS = (*SHARED_OPTIONS, "header", *_COLUMNS, "first_choice")


@dataclass(frozen=True)
class ChoiceFiles:
    """Files of questions, each with its choices."""

    files: TaskFiles
    values: TaskValues

    option = "choices"
    max_tokens = MultipleChoice.max_tokens

    def __post_init__(self) -> None:
        """Refuses options that would be passed over, and more than one text that is shared."""
        require_read(self.files, self.values, _OPTIONS, self.option, "")
        if len(self.files.text_columns) > 1:
            raise ValueError(
                "choices share one text: --text-columns takes one column here, and --begun-column "
                "another that each choice goes on with"
            )

    def read(self, path: Path, task: object) -> OwnFile[ChoiceExample]:
        """As `choices.read`, in the layout of the file or the one that is named."""
        files = self.files
        options = FileOptions(has_header=files.header, skip_malformed=files.skip_malformed)
        return choices.read(path, self._columns(path), options)

    def contents(self, examples: Sequence[ChoiceExample]) -> list[str]:
        """What their choices share."""
        return choices.contents(examples)

    def begin(self, files: Sequence[OwnFile[ChoiceExample]], max_tokens: int) -> MultipleChoice:
        """The same for all."""
        return MultipleChoice(max_tokens=max_tokens)

    def fitting(self, task: object) -> MultipleChoice:
        """The task of a model that chooses."""
        if not isinstance(task, MultipleChoice):
            raise wrong_kind(task, self.option, "questions with choices")
        return task

    def to_json(self, task: _Chooser, name: str) -> Mapping[str, object]:
        """As `stored.task_json`."""
        columns = dataclasses.asdict(self._columns(self.files.choices))
        path = self.files.choices
        assert path is not None
        has_header = learned_header(path, self.files)
        learned = Learned(name=name, columns=columns, has_header=has_header)
        return task_json(self.fitting(task), learned)

    def answerable(self, examples: Sequence[ChoiceExample], task: _Chooser) -> MultipleChoice:
        """As it is: a label that is no choice was refused with its row."""
        return self.fitting(task)

    def balance(self, examples: Sequence[ChoiceExample], task: _Chooser) -> str:
        """How often the right choice stands where."""
        return choices.balance(examples)

    def labels(self, examples: Sequence[ChoiceExample], task: _Chooser) -> list[tuple[str, ...]]:
        """None: a place among the choices is no label."""
        return [()] * len(examples)

    def notes(self, file: OwnFile[ChoiceExample], task: _Chooser) -> Sequence[str]:
        """How many choices there are, and repetitions."""
        return choices.summary(file).notes

    def set_notes(
        self, train: Sequence[ChoiceExample], dev: Sequence[ChoiceExample]
    ) -> Sequence[str]:
        """None."""
        return ()

    def _columns(self, path: Path | None) -> ChoiceColumns:
        assert path is not None
        files = self.files
        found = tables.columns(path, has_header=files.header)
        layout = choices.layout_of(found)
        if files.text_columns or files.choice_columns or layout is None:
            layout = self._named(path, found, layout)
        label = files.label_column or layout.label
        key = layout.key if files.key_column is None else files.key_column
        named = {
            layout.text: "text-columns",
            layout.begun: "begun-column",
            **dict.fromkeys(layout.choices, "choice-columns"),
            label or "": "label-column",
            key: "key-column",
        }
        require_columns(path, found, {name.partition(".")[0]: named[name] for name in named})
        return replace(layout, label=label, key=key, first_number=files.first_choice)

    def _named(
        self, path: Path, found: Sequence[str], layout: ChoiceColumns | None
    ) -> ChoiceColumns:
        files = self.files
        if layout is None and not (files.text_columns and files.choice_columns):
            raise ValueError(
                f"{path}: neither SWAG's columns nor ARC's, found {', '.join(map(repr, found))}: "
                f"name what the choices share with --text-columns, and the choices with "
                f"--choice-columns"
            )
        known = layout or ChoiceColumns(text="", choices=files.choice_columns)
        return replace(
            known,
            text=files.text_columns[0] if files.text_columns else known.text,
            choices=files.choice_columns or known.choices,
            begun=files.begun_column or ("" if files.text_columns else known.begun),
        )
