"""`--glue`: a task of GLUE -> texts and pairs with labels, from the benchmark's own files."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from bertsmith.commands.sources.source import Labelled, require_read, shortened, wrong_kind
from bertsmith.commands.task_files import Split, TaskFiles, TaskValues, given, typed_words
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks import classify, glue
from bertsmith.tasks.classify import TextAnswer, TextExample
from bertsmith.tasks.glue import GlueTask
from bertsmith.tasks.task import Classification, EncodedTexts, to_json


@dataclass(frozen=True)
class GlueFiles:
    """A task of GLUE in the directory of its files."""

    files: TaskFiles
    directory: Path
    task: GlueTask

    @classmethod
    def of(cls, files: TaskFiles, values: TaskValues, directory: Path) -> GlueFiles:
        """Raises ValueError for no task of GLUE, FileNotFoundError for no directory."""
        require_read(files, values, ("task", "skip_malformed"), "glue", "")
        if files.task is None:
            raise ValueError("name the examples: --glue DIR --task RTE (or another task of GLUE)")
        if not directory.is_dir():
            raise FileNotFoundError(f"{directory}: no such directory of GLUE's files")
        return cls(files, directory, glue.task_named(files.task))

    @property
    def name(self) -> str:
        """The task's."""
        return self.task.name

    def learning_set(
        self, max_tokens: int | None
    ) -> LearningSet[TextExample, EncodedTexts, TextAnswer]:
        """Reads the training and Dev examples; raises as `glue.read` does."""
        row = self.task
        told: list[str] = []
        train, dev = (self._read(split, told) for split in ("train", "dev"))
        task = Classification(
            scheme=row.scheme,
            max_tokens=max_tokens or Classification.max_tokens,
            metrics=row.metrics,
        )
        return LearningSet(
            name=row.name,
            task=task,
            task_json=to_json(task),
            train=train,
            dev=dev,
            options=shlex.join(typed_words({**given(self.files), "task": row.name})),
            train_balance=classify.balance(train, row.scheme),
            dev_balance=classify.balance(dev, row.scheme),
            notes=shortened(told),
        )

    def labelled(
        self, task: object, split: Split | None
    ) -> Labelled[TextExample, EncodedTexts, TextAnswer]:
        """One split alone, Dev by default."""
        if not isinstance(task, Classification):
            raise wrong_kind(task, "glue", "texts with labels")
        told: list[str] = []
        which: Split = split or "dev"
        examples = self._read(which, told)
        return Labelled(
            name=f"{which} of {self.name}", task=task, examples=examples, notes=shortened(told)
        )

    def _read(self, split: Split, told: list[str]) -> list[TextExample]:
        return glue.read(self.directory, self.task, split, told.append)
