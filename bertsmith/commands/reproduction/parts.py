"""Experiments -> their parts in the order in which they are made, and the making of each.

A part is a pre-trained model, two models joined, a model tuned on other examples first, or a cell
with all its restarts. Parts that share everything are one. It does not know tables.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bertsmith.checkpoints import joined, store
from bertsmith.checkpoints.places import BEST, find_model
from bertsmith.commands.examples import labelled_examples
from bertsmith.commands.pretrain import pretrain
from bertsmith.commands.pretrain_options import Pretrain
from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.commands.search import search_runs
from bertsmith.files import read_json, write_json
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import (
    Experiment,
    Joined,
    Model,
    Pretrained,
    Score,
    Tuned,
    models_of,
)
from bertsmith.runs.directory import checkpoint_path
from bertsmith.runs.experiments.found import ALSO, grid_of, is_made, is_scored
from bertsmith.runs.experiments.places import Site, key_of, source_of
from bertsmith.runs.finetune_report import answering_model
from bertsmith.runs.learning_set import LearningSet, read_examples
from bertsmith.runs.search_job import SearchJob
from bertsmith.runs.search_record import read_results
from bertsmith.train.device import choose_precision


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where and how parts are made."""

    site: Site
    sets: ExamSets
    corpora: Mapping[bool, Path]
    options: Reproduce
    device: torch.device


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that an experiment needs."""

    what: Model | Score
    key: str
    title: str
    """For a person."""

    def is_there(self, site: Site) -> bool:
        """Whether nothing of it is to be made."""
        if isinstance(self.what, Score):
            return is_scored(self.what, site)
        return is_made(self.what, site)

    def is_ready(self, site: Site) -> bool:
        """Whether what it begins with is there."""
        needed = models_of(self.what) if isinstance(self.what, Score) else _begins_with(self.what)
        return all(is_made(model, site) for model in needed)


def parts_of(experiments: Sequence[Experiment], site: Site, sets: ExamSets) -> list[Part]:
    """Every part once, each after what it begins with; cells of missing examples are left out."""
    found: dict[str, Part] = {}
    for part in _all_parts(experiments, site, sets):
        before = found.get(part.key)
        found[part.key] = part if before is None else _merged(before, part)
    return list(found.values())


def make(part: Part, workshop: Workshop) -> None:
    """Makes what is missing of a part.

    Raises InUseError where another process is at it, KeyboardInterrupt when stopped.
    """
    what = part.what
    if isinstance(what, Pretrained):
        _pretrain(what, workshop)
    elif isinstance(what, Joined):
        _join(what, workshop.site)
    elif isinstance(what, Tuned):
        score = Score(
            model=what.model,
            exam=what.exam,
            run=what.run,
            restarts=1,
            max_tokens=what.max_tokens,
            options=what.options,
        )
        _learn(score, workshop.site.of_model(what), workshop)
    else:
        _score(what, workshop)


def _all_parts(experiments: Sequence[Experiment], site: Site, sets: ExamSets) -> Iterator[Part]:
    for experiment in experiments:
        for row, column, cell in experiment.cells():
            if sets.lacks(cell):
                continue
            for model in models_of(cell):
                yield Part(what=model, key=key_of(model, site), title=_named(model))
            if isinstance(cell, Score):
                title = f"{experiment.name}: {row.title}, {column}"
                yield Part(what=cell, key=key_of(cell, site), title=title)


def _merged(before: Part, part: Part) -> Part:
    """What serves both: as many restarts as either asks for."""
    first, second = before.what, part.what
    if not (isinstance(first, Score) and isinstance(second, Score)):
        return before
    is_ensemble = "ensemble" in (first.taken, second.taken)
    what = replace(
        first,
        restarts=max(first.restarts, second.restarts),
        taken="ensemble" if is_ensemble else "mean",
        measured_on=first.measured_on or second.measured_on,
    )
    return replace(before, what=what)


def _begins_with(model: Model) -> tuple[Model, ...]:
    if isinstance(model, Joined):
        return (model.left_to_right, model.right_to_left)
    return (model.model,) if isinstance(model, Tuned) else ()


def _named(model: Model) -> str:
    if isinstance(model, Pretrained):
        step = "" if model.step is None else f", step {model.step:,}"
        return f"pre-training {model.run.name}{step}"
    if isinstance(model, Joined):
        return f"joining {model.left_to_right.run.name} and {model.right_to_left.run.name}"
    return f"{model.model.run.name}, first on {model.exam}"


def _place_of(model: Model, site: Site) -> Path:
    """Where its weights are."""
    directory = site.of_model(model)
    if isinstance(model, Pretrained) and model.step is not None:
        return checkpoint_path(directory, model.step)
    return find_model(directory)


def _pretrain(model: Pretrained, workshop: Workshop) -> None:
    pretrain(
        Pretrain(
            texts=(workshop.corpora[model.cased],),
            recipe="mini-cpu",
            run=model.run,
            out=workshop.site.of_model(model),
            device=workshop.options.device,
            threads=workshop.options.threads,
        )
    )


def _join(model: Joined, site: Site) -> None:
    left, right = (_place_of(s, site) for s in (model.left_to_right, model.right_to_left))
    joined.join(left, right, site.of_model(model))


def _score(score: Score, workshop: Workshop) -> None:
    directory = workshop.site.of_score(score)
    if score.taken == "ensemble" and not is_scored(score, workshop.site) and _is_cleared(directory):
        shutil.rmtree(directory)  # an ensemble needs the weights of every member again
    learning = _learn(score, directory, workshop)
    if score.measured_on:
        _measure_also(score, directory, learning, workshop)
    if not workshop.options.keep_models:
        _clear(directory)


def _learn(score: Score, directory: Path, workshop: Workshop) -> LearningSet[Any, Any, Any]:
    """Carries out all runs of a cell."""
    site, learning = workshop.site, workshop.sets.of(score)
    model = _place_of(score.model, site)
    job = SearchJob(
        model=str(model),
        run=replace(score.run, keep_head=isinstance(score.model, Tuned)),
        grid=grid_of(score),
        restarts=score.restarts,
        directory=directory,
        request={
            "model": str(model.resolve()),
            "examples": workshop.sets.source(score),
            "max_tokens": score.max_tokens,
            "most_examples": score.most_examples,
        },
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        device=workshop.device,
    )
    try:
        search_runs(job, learning, Console(quiet=not workshop.options.verbose))
    except ValueError:
        if not is_scored(score, site):  # where every run failed, that is what was found
            raise
    return learning


def _measure_also(
    score: Score, directory: Path, learning: LearningSet[Any, Any, Any], workshop: Workshop
) -> None:
    """Scores every run's model on the other set's Dev examples."""
    source = source_of(EXAMS[score.measured_on], workshop.site.data, score.options)
    labelled = labelled_examples(source, learning.task, "dev")
    scores: dict[str, dict[str, float]] = {}
    for name in read_results(directory).runs:
        loaded = store.load(find_model(directory / name))
        precision = choose_precision(score.run.precision, workshop.device)
        dev = read_examples(labelled.task, labelled.examples, loaded, "Dev")
        scores[name] = dev.scores(dev.answers(answering_model(loaded, precision, workshop.device)))
    known = read_json(directory / ALSO) if (directory / ALSO).is_file() else {}
    write_json(directory / ALSO, {**known, score.measured_on: scores})


def _clear(directory: Path) -> None:
    """Deletes weights and kept hidden states; scores, metrics and reports stay."""
    for run in directory.iterdir():
        for kept in ("checkpoints", BEST):
            shutil.rmtree(run / kept, ignore_errors=True)
    for kept in (BEST, "features"):
        shutil.rmtree(directory / kept, ignore_errors=True)


def _is_cleared(directory: Path) -> bool:
    """Whether its runs are there without their weights."""
    return (
        directory.is_dir()
        and not any(directory.glob("*/checkpoints"))
        and bool(read_results(directory).runs)
    )
