"""A file to train on, and one to evaluate on or none, of any kind -> a set to learn from.

What is particular to a kind of file is a `Kind`; what is the same for all stands here: the split,
what is told of a file, and what a model is scored on.
"""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from bertsmith.commands.sources.source import Labelled, shortened
from bertsmith.commands.task_files import Split, TaskFiles, given, typed_words
from bertsmith.reading import tables
from bertsmith.reading.counted import counted
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks.label_lists import MOST_LISTED, alike, held_against, label_counts
from bertsmith.tasks.own.files import OwnFile
from bertsmith.tasks.own.sets import OwnSets, sets_of
from bertsmith.tasks.own.split import SplitConfig
from bertsmith.tasks.task import Encoded, Task

ExampleT = TypeVar("ExampleT")
EncodedT = TypeVar("EncodedT", bound=Encoded)
AnswerT = TypeVar("AnswerT")

SHARED_OPTIONS = ("dev", "dev_share", "split_seed", "skip_malformed")
"""What the options of all kinds of files have in common."""


class Kind(Protocol[ExampleT, EncodedT, AnswerT]):
    """What is particular to one kind of file."""

    @property
    def option(self) -> str:
        """The option that names such a file, as a name."""

    @property
    def max_tokens(self) -> int:
        """The longest sequence where nothing is said."""

    def read(self, path: Path, task: object) -> OwnFile[ExampleT]:
        """The examples of a file, for a model's task; for None as the options say."""

    def contents(self, examples: Sequence[ExampleT]) -> list[str]:
        """What keeps examples on one side of a split."""

    def begin(
        self, files: Sequence[OwnFile[ExampleT]], max_tokens: int
    ) -> Task[ExampleT, EncodedT, AnswerT]:
        """The task of these files, that to train on first."""

    def fitting(self, task: object) -> Task[ExampleT, EncodedT, AnswerT]:
        """The task, if it is of this kind. Raises ValueError for another."""

    def to_json(self, task: Task[ExampleT, EncodedT, AnswerT], name: str) -> Mapping[str, object]:
        """What task.json holds of it, and of the examples called `name`."""

    def answerable(
        self, examples: Sequence[ExampleT], task: Task[ExampleT, EncodedT, AnswerT]
    ) -> Task[ExampleT, EncodedT, AnswerT]:
        """The task as it scores these. Raises ValueError, with the place, for an unknown label."""

    def balance(self, examples: Sequence[ExampleT], task: Task[ExampleT, EncodedT, AnswerT]) -> str:
        """A line on what is right, and how often."""

    def labels(
        self, examples: Sequence[ExampleT], task: Task[ExampleT, EncodedT, AnswerT]
    ) -> list[tuple[str, ...]]:
        """Of each example what must be met in training to be learned; none where nothing must."""

    def notes(
        self, file: OwnFile[ExampleT], task: Task[ExampleT, EncodedT, AnswerT]
    ) -> Sequence[str]:
        """What is worth knowing of a file before it is learned from."""

    def set_notes(self, train: Sequence[ExampleT], dev: Sequence[ExampleT]) -> Sequence[str]:
        """What is worth knowing of both sets together: how one is unlike the other."""


@dataclass(frozen=True)
class FileSource(Generic[ExampleT, EncodedT, AnswerT]):
    """Files of one kind."""

    kind: Kind[ExampleT, EncodedT, AnswerT]
    path: Path
    files: TaskFiles

    @property
    def name(self) -> str:
        """The kind and the file: `texts-reviews`."""
        return f"{self.kind.option.replace('_', '-')}-{_stem(self.path)}"

    def learning_set(self, max_tokens: int | None) -> LearningSet[ExampleT, EncodedT, AnswerT]:
        """Reads both files, or divides the one."""
        kind, dev = self.kind, self.files.dev
        files = [kind.read(path, None) for path in (self.path, dev) if path is not None]
        task = kind.begin(files, max_tokens or kind.max_tokens)
        for file in files:
            kind.answerable(file.examples, task)  # raises for what was not learned
        sets = self._sets(files, task)
        counts = [label_counts(kind.labels(each, task)) for each in (sets.train, sets.dev)]
        told = (kind.balance(sets.train, task), alike(counts[0]))
        is_long = len(counts[0]) > MOST_LISTED
        return LearningSet(
            name=self.name,
            task=task,
            task_json=kind.to_json(task, self.name),
            train=sets.train,
            dev=sets.dev,
            options=shlex.join(self._scoring_words()),
            train_balance="; ".join(filter(None, told)),
            dev_balance=held_against(*counts) if is_long else kind.balance(sets.dev, task),
            label_counts=dict(zip(("training", "Dev"), counts, strict=True)) if counts[0] else {},
            notes=(
                *(note for file in files for note in self._notes(file, task)),
                *sets.notes,
                *kind.set_notes(sets.train, sets.dev),
            ),
            skip_malformed=self.files.skip_malformed,
        )

    def labelled(self, task: object, split: Split | None) -> Labelled[ExampleT, EncodedT, AnswerT]:
        """Without a split the Dev file where there is one, else the whole file."""
        kind, dev = self.kind, self.files.dev
        own = kind.fitting(task)
        if split is not None and dev is None:
            file = kind.read(self.path, task)
            sets = self._sets([file], own)
            learned = (*sets.train, *sets.unlearnable)
            examples = learned if split == "train" else sets.dev
            name = f"the share of {self.path} to {_PURPOSES[split]}"
        else:
            path = self.path if split == "train" or dev is None else dev
            file = kind.read(path, task)
            examples, name = file.examples, str(path)
        own = kind.answerable(file.examples, own)
        return Labelled(name=name, task=own, examples=examples, notes=tuple(self._notes(file, own)))

    def _sets(
        self, files: Sequence[OwnFile[ExampleT]], task: Task[ExampleT, EncodedT, AnswerT]
    ) -> OwnSets[ExampleT]:
        kind = self.kind
        share, seed = self.files.dev_share, self.files.split_seed
        if len(files) > 1 and (share is not None or seed is not None):
            raise ValueError(
                "--dev-share and --split-seed divide a single file, and --dev names the one to "
                "evaluate on: leave one of them out"
            )
        config = SplitConfig(
            share=SplitConfig.share if share is None else share, seed=seed or SplitConfig.seed
        )
        return sets_of(
            files[0],
            files[1] if files[1:] else None,
            kind.contents,
            config,
            lambda examples: kind.labels(examples, task),
        )

    def _notes(self, file: OwnFile[ExampleT], task: Task[ExampleT, EncodedT, AnswerT]) -> list[str]:
        told = [f"{file.path.name}: {note}" for note in self.kind.notes(file, task)]
        if file.left_out:
            first = "; ".join(shortened(file.left_out))
            told.append(f"{file.path.name}: {counted(len(file.left_out), 'row')} left out: {first}")
        if file.unlearnable:
            first = "; ".join(shortened(list(file.unlearnable.values())))
            told.append(
                f"{file.path.name}: {counted(len(file.unlearnable), 'example')} not to be learned, "
                f"left out of training and scored in Dev: {first}"
            )
        return told

    def _scoring_words(self) -> list[str]:
        """How `evaluate` is told to score what was Dev."""
        source = given(self.files)
        dev = source.pop("dev", None)
        if dev is None:
            return [*typed_words(source), "--split", "dev"]
        return typed_words({**source, self.kind.option: dev})


def require_columns(path: Path, found: Sequence[str], named: Mapping[str, str]) -> None:
    """Raises ValueError for a column that the file has not, with the option that names another.

    `named` gives each column's option; a column without a name is none.
    """
    for column, option in named.items():
        if column and column not in found:
            near = difflib.get_close_matches(column, found, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            none = " ('' for none)" if option == "key-column" else ""
            raise ValueError(
                f"{path}: no column {column!r}, found {', '.join(map(repr, found)):.200}: name the "
                f"right one with --{option}{none}{meant}{tables.misread(path, found, column)}"
            )


def learned_header(path: Path, files: TaskFiles) -> bool:
    """Whether the rows of `path` are read by names: False for numbered columns of CSV and TSV."""
    return files.header or not tables.has_named_columns(path)


_PURPOSES: dict[Split, str] = {"train": "train on", "dev": "evaluate on"}


def _stem(path: Path) -> str:
    """The file's name without what says its format: of `a.b.tsv.gz` it is `a.b`."""
    name = path.with_suffix("") if path.suffix in (".gz", ".xz", ".bz2", ".zst") else path
    return name.with_suffix("").name
