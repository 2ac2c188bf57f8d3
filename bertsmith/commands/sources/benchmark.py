"""`--glue`: a task of GLUE -> texts and pairs with labels.

From the benchmark's own files, from a directory in the Hub's layout, or from the Hub by its id.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace

from bertsmith.commands.sources.source import Labelled, require_read, shortened, wrong_kind
from bertsmith.commands.task_files import Split, TaskFiles, TaskValues, given, typed_words
from bertsmith.reading.counted import counted
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks import classify, glue, glue_hub
from bertsmith.tasks.classify import LabelScheme, TextAnswer, TextExample
from bertsmith.tasks.glue import GlueTask
from bertsmith.tasks.stored import Learned, task_json
from bertsmith.tasks.task import Classification, EncodedTexts

Told = Callable[[str], None]
Read = Callable[[Split, Told, Told], list[TextExample]]
"""A split, who is told of rows that the official files have wrong, and of the rest -> examples."""


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
            return cls(
                files, task, lambda split, left, noted: glue.read(place, task, split, left, noted)
            )
        name = str(place) if place.is_dir() else place.as_posix()
        if not place.is_dir() and not glue_hub.is_hub_id(name):
            raise FileNotFoundError(
                f"{place}: no such directory of GLUE's files, and no id of a data set on the Hub "
                f"(nyu-mll/glue)"
            )
        return cls(files, task, lambda split, left, noted: glue_hub.read(name, task, split))

    @property
    def name(self) -> str:
        """The task's."""
        return self.task.name

    def learning_set(
        self, max_tokens: int | None
    ) -> LearningSet[TextExample, EncodedTexts, TextAnswer]:
        """Reads the training and Dev examples; raises as `glue.read` does."""
        row = self.task
        read = (self._read(split, row.scheme) for split in ("train", "dev"))
        (train, train_notes), (dev, dev_notes) = read
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
            notes=(*train_notes, *dev_notes),
            skip_malformed=self.files.skip_malformed,
        )

    def labelled(
        self, task: object, split: Split | None
    ) -> Labelled[TextExample, EncodedTexts, TextAnswer]:
        """One split alone, Dev by default."""
        if not isinstance(task, Classification):
            raise wrong_kind(task, "glue", "texts with labels")
        which: Split = split or "dev"
        examples, notes = self._read(which, task.scheme)
        return Labelled(
            name=f"{which} of {self.name}",
            task=replace(task, metrics=self.task.metrics),
            examples=examples,
            notes=tuple(notes),
        )

    def _read(self, split: Split, scheme: LabelScheme) -> tuple[list[TextExample], list[str]]:
        """The examples of a split, and what is worth knowing of them.

        Rows of another width are always told and left out: the official files have them. The number
        of the official examples says nothing where others were left out too.
        """
        left_out: list[str] = []
        notes: list[str] = []
        examples = self.read(split, left_out.append, notes.append)
        skips = self.files.skip_malformed
        if skips:
            faults = {each.place: fault for each in examples if (fault := _fault(each, scheme))}
            left_out += faults.values()
            examples = [each for each in examples if each.place not in faults]
        if left_out:
            told = "; ".join(shortened(left_out))
            notes.insert(0, f"{split}: {counted(len(left_out), 'row')} left out: {told}")
        others = (
            glue.beyond_scale(self.task, examples),
            "" if skips else glue.unofficial(self.task, split, len(examples)),
        )
        return examples, [*notes, *filter(None, others)]


def _fault(example: TextExample, scheme: LabelScheme) -> str:
    """Why an example's label cannot be learned; empty where it can."""
    try:
        scheme.target(example)
    except ValueError as error:
        return str(error)
    return ""
