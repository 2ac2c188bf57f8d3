"""Experiments -> what they need, each thing once, in numbers and in words.

It measures nothing. Sets are read where a folder is named, to say how large they are.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bertsmith.reading.counted import counted
from bertsmith.recipes.experiments.exams import EXAMS, Exam
from bertsmith.recipes.experiments.experiment import (
    Average,
    Cell,
    Experiment,
    Model,
    Pretrained,
    Score,
    Tuned,
    exams_of,
    models_of,
)
from bertsmith.recipes.experiments.scales import Scale
from bertsmith.recipes.experiments.tables import EXPERIMENTS
from bertsmith.recipes.run import PretrainRun
from bertsmith.runs.experiments.flops import pretrained_of, pretraining_flops, scoring_flops
from bertsmith.runs.experiments.places import gap_of
from bertsmith.runs.experiments.presence import Measured
from bertsmith.tasks import glue


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What some experiments need, each once."""

    runs: dict[str, Pretrained]
    """Pre-training runs by name; of several checkpoints of a run, one."""
    scores: list[Score]
    """Fine-tunings, each with as many restarts as the cells together ask for."""

    @staticmethod
    def of(
        experiments: Sequence[Experiment],
        lacks: Callable[[Cell], bool] = lambda cell: False,
        is_there: Callable[[Model | Measured], bool] = lambda part: False,
    ) -> Needs:
        """Cells that lack their examples are left out, and what is there already.

        What a cell that is there begins with is not needed for it.
        """
        runs: dict[str, Pretrained] = {}
        scores: list[Score] = []
        for cell in (cell for each in experiments for _, _, cell in each.cells()):
            if lacks(cell) or isinstance(cell, Average) or is_there(cell):
                continue
            models = [model for model in models_of(cell) if not is_there(model)]
            for model in models:
                if isinstance(model, Pretrained):
                    runs[f"{model.run.name}{' cased' if model.cased else ''}"] = model
                if isinstance(model, Tuned):
                    _add(scores, model.learned)
            if isinstance(cell, Score):
                _add(scores, cell)
        return Needs(runs=runs, scores=scores)

    @property
    def num_finetunings(self) -> int:
        """Runs of all cells."""
        return sum(map(num_runs, self.scores))

    def flops(
        self, vocab_size: int, sizes: Callable[[Score], tuple[int, int]]
    ) -> Iterator[tuple[PretrainRun, float]]:
        """Multiplications and additions of everything, each with a run of the model that does them.

        `sizes` says how many examples a score learns from, and how many it is measured on.
        """
        for model in self.runs.values():
            yield model.run, pretraining_flops(model.run, vocab_size=vocab_size)
        for score in self.scores:
            count, num_dev = sizes(score)
            flops = scoring_flops(score, num_examples=count, num_dev=num_dev)
            yield pretrained_of(score.model), flops


def listed(scale: Scale, data: Path | None, names: Sequence[str] = ()) -> Iterator[str]:
    """What there is, what each needs and took at this scale, and which of the sets are in `data`.

    Of experiments of these names, if there are any. Raises FileNotFoundError for no folder.
    """
    if data is not None and not data.is_dir():
        raise FileNotFoundError(f"{data}: no such folder of labelled sets")
    gaps = {name: gap for name, exam in EXAMS.items() if data and (gap := gap_of(exam, data))}
    yield f"at --scale {scale.name} (tiny, mini and paper are there):"
    needed: dict[str, None] = {}
    for name in names or EXPERIMENTS:
        experiment = EXPERIMENTS[name](scale)
        needs = Needs.of([experiment])
        exams = _exams(experiment)
        needed |= dict.fromkeys(exams)
        yield f"{experiment.name:<15}{experiment.title} ({experiment.source})"
        yield (
            f"{'':<15}{counted(len(needs.runs), 'pre-training run')} of "
            f"{tokens(needs.runs.values())}, {needs.num_finetunings} fine-tunings; "
            f"{', '.join(exams)}; {_vocabularies(scale, needs)}"
        )
        if told := _expected(name, scale):
            yield f"{'':<15}time, memory, scores: {told}"
        if missing := [name for name in exams if name in gaps]:
            yield f"{'':<15}missing here: {', '.join(missing)}; their cells are left out"
    yield (
        "--text is any text in documents, which the vocabulary is learned from too; where it holds "
        "fewer tokens than a run reads, it is read again"
    )
    yield "--plan-only tells what any of them takes on this machine: time, memory, disk"
    yield "where --data holds a set:"
    for exam in (EXAMS[name] for name in EXAMS if name in needed):
        yield f"{exam.name:<15}{_where(exam)}{_told_there(exam, data, gaps)}"


def _expected(name: str, scale: Scale) -> str:
    """What the experiment's docstring tells of the scale; empty where Python was to keep none."""
    told = inspect.getdoc(EXPERIMENTS[name]) or ""
    _, *parts = re.split(r"^(\w+): ", told, flags=re.MULTILINE)
    return " ".join(dict(zip(parts[::2], parts[1::2], strict=True)).get(scale.name, "").split())


def tokens(models: Iterable[Pretrained]) -> str:
    """`16.4 M tokens`, or of what to what."""
    counts = sorted(
        sum(phase.steps * phase.batch_size * phase.sequence_length for phase in model.run.phases)
        for model in models
    )
    if not counts:
        return "no tokens"
    first, last = (f"{count / 1e6:,.1f} M" for count in (counts[0], counts[-1]))
    return f"{first} tokens" if first == last else f"{first} to {last} tokens"


def num_runs(score: Score) -> int:
    """Of a cell: its seeds, at every point of its grid."""
    return score.restarts * (1 if score.grid is None else len(score.grid.runs(score.run)))


def _add(scores: list[Score], score: Score) -> None:
    """Joins a cell with one that differs in nothing but what costs nothing, and in restarts."""
    plain = replace(score, metric="", measured_on="", taken="mean")
    for number, before in enumerate(scores):
        if replace(before, restarts=plain.restarts) == plain:
            scores[number] = replace(plain, restarts=max(before.restarts, plain.restarts))
            return
    scores.append(plain)


def _exams(experiment: Experiment) -> list[str]:
    """The sets that its cells need, each once."""
    return list(dict.fromkeys(name for _, _, cell in experiment.cells() for name in exams_of(cell)))


def _vocabularies(scale: Scale, needs: Needs) -> str:
    """How many word pieces are learned from the text, cased or not."""
    cased = {model.cased for model in needs.runs.values()}
    sizes = {False: (scale.vocab_size, "uncased"), True: (scale.cased_vocab_size, "cased")}
    return " and ".join("{:,} {} word pieces".format(*sizes[each]) for each in sorted(cased))


def _told_there(exam: Exam, data: Path | None, gaps: Mapping[str, str]) -> str:
    """Whether its files are there and how large the set is; empty where nobody says where."""
    if data is None:
        return ""
    if exam.name in gaps:
        return f": missing, {gaps[exam.name]}"
    # It imports what reads files, which takes seconds: only where there are any.
    from bertsmith.commands.reproduction.exam_sets import sizes_of

    try:
        num_train, num_dev = sizes_of(exam, data)
    except ValueError as error:
        return f": there, and cannot be read: {error}"
    if departures := exam.departures(num_train, num_dev):
        return f": there, not the official set: {'; '.join(departures)}"
    return f": there, {num_train:,} examples to learn from, {num_dev:,} of Dev"


def _where(exam: Exam) -> str:
    if "task" not in exam.files:
        remark = f" ({exam.remark})" if exam.remark else ""
        return " and ".join(exam.files[option] for option in exam.paths) + remark
    return f"{exam.files['glue']}/{glue.task_named(exam.name).directory or exam.name}"
