"""Experiments and a folder of data -> every labelled set that they need, read once; or its gap.

Reading is done before any training, so that a broken file is told at once. A set that is missing
is a named gap; one that is there and broken is an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bertsmith.commands.examples import labelled_examples, learning_set
from bertsmith.randomness import Stream, permutation
from bertsmith.recipes.experiments.exams import EXAMS, Exam
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Experiment,
    Score,
    exams_of,
    scores_of,
)
from bertsmith.runs.experiments.places import files_of, gap_of, source_of
from bertsmith.runs.learning_set import LearningSet
from bertsmith.tasks.guessing import best_constant
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
    others: Mapping[str, int]
    """Of exams that the models of another are measured on too, how many examples Dev has."""
    reached: dict[tuple[str, str], float | None] = field(default_factory=dict)
    """By one answer to all of Dev, by `_key` and metric, once it was asked for."""

    @staticmethod
    def read(experiments: Sequence[Experiment], data: Path) -> ExamSets:
        """Reads all that is there.

        Raises FileNotFoundError for no folder, ValueError, with the place, for what cannot be
        learned from, and where nothing can be measured because no set of any experiment is there.
        """
        if not data.is_dir():
            raise FileNotFoundError(f"{data}: no such folder of labelled sets")
        cells = [cell for experiment in experiments for _, _, cell in experiment.cells()]
        names = dict.fromkeys(name for cell in cells for name in exams_of(cell))
        gaps = {name: gap for name in names if (gap := gap_of(EXAMS[name], data))}
        found = ExamSets(data=data, gaps=gaps, sets={}, others={})
        is_idle = all(found.lacks(cell) or isinstance(cell, Average) for cell in cells)
        if is_idle and not any(map(found.is_there, EXAMS)):
            raise ValueError(
                f"{data} holds none of the labelled sets: {'; '.join(gaps.values())} "
                f"(`bertsmith reproduce --list` says where each is looked for)"
            )
        sets, others = dict[str, AnySet](), dict[str, int]()
        for each in (each for cell in cells if not found.lacks(cell) for each in scores_of(cell)):
            if _key(each) not in sets:
                source = source_of(EXAMS[each.exam], data, each.options)
                sets[_key(each)] = _checked(learning_set(source, each.max_tokens))
            other = other_of(each)
            if other and other not in others and found.is_there(other):
                others[other] = _num_dev(other, data, sets[_key(each)].task)
        return replace(found, sets=sets, others=others)

    def lacks(self, cell: Cell) -> bool:
        """Whether a cell cannot be measured."""
        return any(name in self.gaps for name in exams_of(cell))

    def is_there(self, exam: str) -> bool:
        """Whether the files of any exam are."""
        return not gap_of(EXAMS[exam], self.data)

    def of(self, score: Score) -> AnySet:
        """What it learns from: all, or the part that is drawn."""
        whole, most = self.sets[_key(score)], score.most_examples
        if most is None or most >= len(whole.train):
            return whole
        order = permutation(len(whole.train), _SEED, Stream.SHUFFLE, 0)
        return replace(whole, train=[whole.train[number] for number in sorted(order[:most])])

    def source(self, score: Score) -> dict[str, object]:
        """How a command line names its files."""
        return source_of(EXAMS[score.exam], self.data, score.options)

    def num_examples(self, score: Score) -> int:
        """How many a fine-tuning learns from."""
        whole = len(self.sets[_key(score)].train)
        return whole if score.most_examples is None else min(whole, score.most_examples)

    def sizes(self, score: Score) -> tuple[int, int]:
        """How many examples a fine-tuning learns from, and how many it is measured on."""
        return self.num_examples(score), len(self.sets[_key(score)].dev)

    def reached_by_guessing(self, score: Score) -> float | None:
        """Of one answer to all of Dev, in the metric that a cell tells; None if that is unknown."""
        key = _key(score), score.metric or EXAMS[score.exam].metric
        if key not in self.reached:
            found = self.sets[_key(score)]
            constant = best_constant(found.task, found.dev, key[1])
            self.reached[key] = constant.score if constant else None
        return self.reached[key]

    def about(self, score: Score) -> dict[str, object]:
        """How large a cell's set is, and how it differs from the official one, as JSON values."""
        found = self.sets[_key(score)]
        whole, measured = len(found.train), len(found.dev)
        departures = EXAMS[score.exam].departures(whole, measured)
        other = other_of(score)
        departures += [f"{other}: {said}" for said in self._of_other(other)]
        return {
            "num_train": whole,
            "num_learned": self.num_examples(score),
            "num_dev": measured,
            **({"not_official": departures} if departures else {}),
        }

    def notes(self, experiment: Experiment) -> list[str]:
        """What its sets are, where they are not the official ones, or not read whole."""
        told: dict[str, None] = {}
        cells = [cell for _, _, cell in experiment.cells() if not self.lacks(cell)]
        for each in (each for cell in cells for each in scores_of(cell)):
            exam, found = EXAMS[each.exam], self.sets[_key(each)]
            whole, learned = len(found.train), self.num_examples(each)
            of_both = {exam.name: exam.departures(whole, len(found.dev))}
            of_both[each.measured_on] = self._of_other(each.measured_on)
            for name, departures in of_both.items():
                if departures:
                    said = "; ".join(departures)
                    told[f"{name} is not the official set here: {said}."] = None
            if learned < whole:
                told[f"{exam.name}: {learned:,} examples drawn from {whole:,} are learned."] = None
        return list(told)

    def _of_other(self, exam: str) -> list[str]:
        """How Dev of such an exam departs from the official one; nothing where it is not there."""
        if exam not in self.others:
            return []
        return EXAMS[exam].departures(EXAMS[exam].num_train, self.others[exam])


def other_of(score: Score) -> str:
    """Another exam whose Dev the same models are measured on, where it is there; empty for none."""
    return score.measured_on or EXAMS[score.exam].also


def sizes_of(exam: Exam, data: Path) -> tuple[int, int]:
    """Training and Dev examples in a folder. Raises as `ExamSets.read` does."""
    files_of(exam, data)
    first = EXAMS["MNLI-m"] if exam.name == "MNLI-mm" else exam
    learned = learning_set(source_of(first, data, {}), None)
    if first is exam:
        return len(learned.train), len(learned.dev)
    return len(learned.train), _num_dev(exam.name, data, learned.task)


def _num_dev(exam: str, data: Path, task: object) -> int:
    return len(labelled_examples(source_of(EXAMS[exam], data, {}), task, "dev").examples)


def _checked(learning: AnySet) -> AnySet:
    """Raises ValueError, with its place, for a label that the set has not."""
    if isinstance(learning.task, Classification):
        for example in (*learning.train, *learning.dev):
            learning.task.scheme.target(example)
    return learning


def _key(score: Score) -> str:
    return json.dumps([score.exam, score.max_tokens, dict(score.options)], sort_keys=True)
