"""`--texts`: texts, or pairs, of a person's own -> labels, or a number."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bertsmith.commands.sources.files import SHARED_OPTIONS, learned_header, require_columns
from bertsmith.commands.sources.source import require_read, wrong_kind
from bertsmith.commands.task_files import TaskFiles, TaskValues
from bertsmith.reading import tables
from bertsmith.tasks import classify
from bertsmith.tasks.classify import LabelScheme, Problem, TextAnswer, TextExample
from bertsmith.tasks.own import texts
from bertsmith.tasks.own.files import FileOptions, OwnFile
from bertsmith.tasks.own.texts import TextColumns
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import Classification, EncodedTexts, Task

_Classifier = Task[TextExample, EncodedTexts, TextAnswer]
_OPTIONS = (
    *SHARED_OPTIONS, "header", "text_columns", "label_column", "separator", "key_column",
)  # fmt: skip


@dataclass(frozen=True)
class TextFiles:
    """Files of texts with labels."""

    files: TaskFiles
    values: TaskValues

    option = "texts"
    max_tokens = Classification.max_tokens

    def __post_init__(self) -> None:
        """Refuses options that would be passed over."""
        require_read(self.files, self.values, _OPTIONS, self.option, "problem metrics")

    @property
    def problem(self) -> Problem:
        """What is learned of each text."""
        return self.values.problem or "single_label"

    def read(self, path: Path, task: object) -> OwnFile[TextExample]:
        """As `texts.read`."""
        files = self.files
        problem = self.problem if task is None else self.fitting(task).scheme.problem
        columns = self._columns(problem)
        named = {**dict.fromkeys(columns.texts, "text-columns"), columns.key: "key-column"}
        named[columns.label or ""] = "label-column"
        require_columns(path, tables.columns(path, has_header=files.header), named)
        options = FileOptions(has_header=files.header, skip_malformed=files.skip_malformed)
        return texts.read(path, columns, options)

    def contents(self, examples: Sequence[TextExample]) -> list[str]:
        """Their texts."""
        return texts.contents(examples)

    def begin(self, files: Sequence[OwnFile[TextExample]], max_tokens: int) -> Classification:
        """The labels of the file to train on."""
        scheme = LabelScheme.of(files[0].examples, self.problem)
        metrics = self.values.metrics or _METRICS[self.problem]
        return Classification(scheme=scheme, max_tokens=max_tokens, metrics=metrics)

    def fitting(self, task: object) -> Classification:
        """The task of a model that classifies or rates."""
        if not isinstance(task, Classification):
            raise wrong_kind(task, self.option, "texts with labels")
        return task

    def to_json(self, task: _Classifier, name: str) -> Mapping[str, object]:
        """As `stored.task_json`."""
        columns = dataclasses.asdict(self._columns(self.problem))
        path = self.files.texts
        assert path is not None
        has_header = learned_header(path, self.files)
        learned = Learned(name=name, columns=columns, has_header=has_header)
        return task_json(self.fitting(task), learned)

    def answerable(self, examples: Sequence[TextExample], task: _Classifier) -> Classification:
        """As it is. Raises ValueError, with the place, for a label that was not learned."""
        own = self.fitting(task)
        texts.require_learned(examples, own.scheme)
        return own

    def balance(self, examples: Sequence[TextExample], task: _Classifier) -> str:
        """How often each label occurs."""
        return classify.balance(examples, self.fitting(task).scheme)

    def labels(self, examples: Sequence[TextExample], task: _Classifier) -> list[tuple[str, ...]]:
        """Those that are learned; none of numbers."""
        is_number = self.fitting(task).scheme.problem == "regression"
        return [() if is_number else example.labels or () for example in examples]

    def notes(self, file: OwnFile[TextExample], task: _Classifier) -> Sequence[str]:
        """Repetitions, labels of several kinds, and too many labels."""
        return texts.summary(file, self.fitting(task).scheme).notes

    def set_notes(self, train: Sequence[TextExample], dev: Sequence[TextExample]) -> Sequence[str]:
        """None."""
        return ()

    def _columns(self, problem: Problem) -> TextColumns:
        files = self.files
        return TextColumns(
            texts=files.text_columns or TextColumns.texts,
            label=files.label_column or TextColumns.label,
            problem=problem,
            separator=TextColumns.separator if files.separator is None else files.separator,
            key=files.key_column or "",
        )


_METRICS: dict[Problem, tuple[str, ...]] = {
    "single_label": ("accuracy", "macro_f1", "matthews"),
    "multi_label": ("f1", "macro_f1", "exact"),
    "regression": ("pearson", "spearman"),
}
"""What is scored where nothing is said; the first one chooses the best model."""
