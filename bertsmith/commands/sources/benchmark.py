"""`--glue`: a task of GLUE -> texts and pairs with labels.

From the benchmark's own files, from a directory in the Hub's layout, or from the Hub by its id.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bertsmith.commands.sources.source import Labelled, require_read, shortened, wrong_kind
from bertsmith.commands.task_files import Split, TaskFiles, TaskValues, given, typed_words
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks import classify, glue, glue_hub
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.glue import GlueTask
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import Classification, EncodedTexts

Read = Callable[[Split, Callable[[str], None]], list[TextExample]]
"""A split, and who is told of rows that the official files have wrong -> its examples."""


@dataclass(frozen=True)
class GlueFiles:
    """A task of GLUE, wherever its examples are."""

    files: TaskFiles
    task: GlueTask
    read: Read

    @classmethod
    def of(cls, files: TaskFiles, values: TaskValues) -> GlueFiles:
        """Raises ValueError for no task of GLUE, FileNotFoundError for no directory."""
        require_read(files, values, ("task", "skip_malformed"), "glue", "")
        place = files.glue
        if place is None or files.task is None:
            raise ValueError("name the examples: --glue DIR --task RTE (or another task of GLUE)")
        task = glue.task_named(files.task)
        if place.is_dir() and not glue_hub.is_hub_layout(place, task):
            return cls(files, task, lambda split, told: glue.read(place, task, split, told))
        name = str(place) if place.is_dir() else place.as_posix()
        if not place.is_dir() and not glue_hub.is_hub_id(name):
            raise FileNotFoundError(
                f"{place}: no such directory of GLUE's files, and no id of a data set on the Hub "
                f"(nyu-mll/glue)"
            )
        return cls(files, task, lambda split, told: glue_hub.read(name, task, split))

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
        train, dev = (self._read(split, row.scheme, told) for split in ("train", "dev"))
        task = Classification(
            scheme=row.scheme,
            max_tokens=max_tokens or Classification.max_tokens,
            metrics=row.metrics,
        )
        return LearningSet(
            name=row.name,
            task=task,
            task_json=task_json(task, Learned(name=row.name, columns={"texts": [*row.texts]})),
            train=train,
            dev=dev,
            options=shlex.join(typed_words({**given(self.files), "task": row.name})),
            train_balance=classify.balance(train, row.scheme),
            dev_balance=classify.balance(dev, row.scheme),
            notes=(
                *shortened(told),
                *filter(None, (self._unofficial("train", train), self._unofficial("dev", dev))),
            ),
        )

    def labelled(
        self, task: object, split: Split | None
    ) -> Labelled[TextExample, EncodedTexts, TextAnswer]:
        """One split alone, Dev by default."""
        if not isinstance(task, Classification):
            raise wrong_kind(task, "glue", "texts with labels")
        told: list[str] = []
        which: Split = split or "dev"
        examples = self._read(which, task.scheme, told)
        return Labelled(
            name=f"{which} of {self.name}",
            task=replace(task, metrics=self.task.metrics),
            examples=examples,
            notes=(*shortened(told), *filter(None, (self._unofficial(which, examples),))),
        )

    def _unofficial(self, split: Split, examples: Sequence[TextExample]) -> str:
        """That they are not the official ones, by their number; empty where some were left out."""
        if self.files.skip_malformed:
            return ""
        return glue.unofficial(self.task, split, len(examples))

    def _read(self, split: Split, scheme: LabelScheme, told: list[str]) -> list[TextExample]:
        """Rows of another width are always told and left out: the official files have them."""
        examples = self.read(split, told.append)
        if not self.files.skip_malformed:
            return examples
        faults = {
            example.place: fault for example in examples if (fault := _fault(example, scheme))
        }
        told += faults.values()
        return [example for example in examples if example.place not in faults]


def _fault(example: TextExample, scheme: LabelScheme) -> str:
    """Why an example cannot be learned; empty where it can."""
    if not all(text.strip() for text in example.texts):
        return f"{example.place}: a text is empty"
    try:
        scheme.target(example)
    except ValueError as error:
        return str(error)
    return ""
