"""Experiments and a folder of data -> every labelled set that they need, read once; or its gap.

Reading is done before any training, so that a broken file is told at once. A set that is missing
is a named gap; one that is there and broken is an error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bertsmith.commands.examples import learning_set
from bertsmith.randomness import Stream, permutation
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Cell, Experiment, Score, Tuned
from bertsmith.runs.experiments.places import files_of, source_of
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks.task import Classification

_SEED = 0
"""By which a part of a training set is drawn."""
AnySet = LearningSet[Any, Any, Any]


@dataclass(frozen=True, kw_only=True)
class ExamSets:
    """What is there of the labelled sets."""

    data: Path
    gaps: Mapping[str, str]
    """Why an exam's examples are not there, by its name."""
    sets: Mapping[str, AnySet]
    """By `_key`, whole."""

    @staticmethod
    def read(experiments: Sequence[Experiment], data: Path) -> ExamSets:
        """Reads all that is there.

        Raises FileNotFoundError for no folder, ValueError, with the place, for what cannot be
        learned from, and where nothing at all is there.
        """
        if not data.is_dir():
            raise FileNotFoundError(f"{data}: no such folder of labelled sets")
        wanted = list(_wanted(experiments))
        names = dict.fromkeys(name for each in wanted for name in _exams_of(each))
        gaps = {name: gap for name in names if (gap := _gap(name, data))}
        if names and len(gaps) == len(names):
            raise ValueError(f"nothing can be measured: {'; '.join(gaps.values())}")
        sets: dict[str, AnySet] = {}
        for each in wanted:
            if each.exam not in gaps and _key(each) not in sets:
                source = source_of(EXAMS[each.exam], data, each.options)
                sets[_key(each)] = _checked(learning_set(source, each.max_tokens))
        return ExamSets(data=data, gaps=gaps, sets=sets)

    def lacks(self, cell: Cell) -> bool:
        """Whether a cell cannot be measured."""
        return isinstance(cell, Score) and any(name in self.gaps for name in _exams_of(cell))

    def of(self, asked: Score | Tuned) -> AnySet:
        """What it learns from: all, or the part that is drawn."""
        whole = self.sets[_key(asked)]
        most = asked.most_examples if isinstance(asked, Score) else None
        if most is None or most >= len(whole.train):
            return whole
        order = permutation(len(whole.train), _SEED, Stream.SHUFFLE, 0)
        return replace(whole, train=[whole.train[number] for number in sorted(order[:most])])

    def source(self, asked: Score | Tuned) -> dict[str, object]:
        """How a command line names its files."""
        return source_of(EXAMS[asked.exam], self.data, asked.options)

    def num_examples(self, score: Score) -> int:
        """How many a fine-tuning learns from."""
        whole = len(self.sets[_key(score)].train)
        return whole if score.most_examples is None else min(whole, score.most_examples)

    def notes(self, experiment: Experiment) -> list[str]:
        """What its sets are, where they are not the official ones, or not read whole."""
        told: dict[str, None] = {}
        for _, _, cell in experiment.cells():
            if not isinstance(cell, Score) or self.lacks(cell):
                continue
            exam, whole = EXAMS[cell.exam], len(self.sets[_key(cell)].train)
            learned = self.num_examples(cell)
            if whole != exam.num_train:
                told[
                    f"{exam.name} is not the official set here: {whole:,} training examples are "
                    f"there, and {exam.num_train:,} are official."
                ] = None
            if learned < whole:
                told[f"{exam.name}: {learned:,} examples drawn from {whole:,} are learned."] = None
        return list(told)


def _checked(learning: AnySet) -> AnySet:
    """Raises ValueError, with its place, for a label that the set has not."""
    if isinstance(learning.task, Classification):
        for example in (*learning.train, *learning.dev):
            learning.task.scheme.target(example)
    return learning


def _wanted(experiments: Sequence[Experiment]) -> Iterator[Score | Tuned]:
    for experiment in experiments:
        for _, _, cell in experiment.cells():
            if isinstance(cell, Score):
                yield cell
                if isinstance(cell.model, Tuned):
                    yield cell.model


def _exams_of(asked: Score | Tuned) -> list[str]:
    """The exams without which it cannot be made, those of its model among them."""
    if isinstance(asked, Tuned):
        return [asked.exam]
    first = [asked.model.exam] if isinstance(asked.model, Tuned) else []
    return [*first, asked.exam, *([asked.measured_on] if asked.measured_on else [])]


def _gap(name: str, data: Path) -> str:
    try:
        files_of(EXAMS[name], data)
    except FileNotFoundError as error:
        return str(error)
    return ""


def _key(asked: Score | Tuned) -> str:
    return json.dumps([asked.exam, asked.max_tokens, dict(asked.options)], sort_keys=True)
