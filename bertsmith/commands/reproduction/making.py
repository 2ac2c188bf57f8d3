"""A part of an experiment -> the same made: by `pretrain`, `join` and `search`, in its directory.

What was stopped goes on. Of a cell the scores stay and the weights go; where they are asked for
again, the runs are learned again. It does not know tables, nor the order of parts.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from bertsmith.checkpoints import joined, store
from bertsmith.checkpoints.places import BEST, find_model
from bertsmith.checkpoints.searches import SEARCH
from bertsmith.commands.examples import labelled_examples
from bertsmith.commands.pretrain import pretrain
from bertsmith.commands.pretrain_options import Pretrain
from bertsmith.commands.reproduce_options import Reproduce
from bertsmith.commands.reproduction.exam_sets import ExamSets, other_of
from bertsmith.commands.search import search_runs
from bertsmith.files import read_json, remove_leftovers, write_json, write_text
from bertsmith.recipes.experiments.exams import EXAMS
from bertsmith.recipes.experiments.experiment import Joined, Model, Pretrained, Score, Tuned
from bertsmith.runs.directory import RECORD, checkpoint_path, fingerprint
from bertsmith.runs.divergence import DivergedError
from bertsmith.runs.experiments.places import Site, known_positions, source_of
from bertsmith.runs.experiments.presence import (
    ALSO,
    DIVERGED,
    grid_of,
    has_ended,
    has_weights,
    is_there,
)
from bertsmith.runs.finetune_report import answering_model
from bertsmith.runs.interruption import Interruption
from bertsmith.runs.learning_set import LearningSet, read_examples
from bertsmith.runs.search_job import SearchJob
from bertsmith.runs.search_record import name_of, read_results, read_search_record
from bertsmith.runs.training import POSITIONS, tile_positions_
from bertsmith.train.device import choose_precision

BEGUN_WITH = "begun-with"
"""Of a cell that begins with no checkpoint as it is, but with a copy: the directory of that."""


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Where and how parts are made."""

    site: Site
    sets: ExamSets
    corpora: Mapping[bool, Path]
    options: Reproduce
    device: torch.device


def make(what: Model | Score, workshop: Workshop) -> None:
    """Makes what is missing of a part.

    Raises InUseError where another process is at it, KeyboardInterrupt when stopped.
    """
    site = workshop.site
    if isinstance(what, Pretrained):
        _pretrain(what, workshop)
    elif isinstance(what, Joined):
        left, right = (_place_of(side, site) for side in (what.left_to_right, what.right_to_left))
        joined.join(left, right, site.of_model(what))
    elif isinstance(what, Tuned):
        _learn(what.learned, site.of_model(what), workshop)
    else:
        _score(what, workshop)


def _place_of(model: Model, site: Site) -> Path:
    """Where its weights are."""
    directory = site.of_model(model)
    if isinstance(model, Pretrained) and model.step is not None:
        return checkpoint_path(directory, model.step)
    if isinstance(model, Tuned):
        return find_model(directory / name_of(model.learned.run))
    return find_model(directory)


def at_full_length(model: Pretrained, checkpoint: Path, directory: Path) -> Path:
    """A kept checkpoint; where a longer phase was to come, a copy with that phase's positions.

    Else fine-tuning would meet positions that nothing has trained, and a model that pools its last
    token would pool there. The copy lies in the directory of the cell that begins with it.
    """
    known, longest = known_positions(model)
    if known == longest:
        return checkpoint
    tiled = directory / BEGUN_WITH
    if not tiled.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        loaded = store.load(checkpoint)
        state = loaded.model.state_dict()
        tile_positions_(state[POSITIONS][:longest], known)
        store.save(tiled, state, loaded.config, loaded.tokenizer)
    return tiled


def _pretrain(model: Pretrained, workshop: Workshop) -> None:
    """Begins the run or goes on; one that diverges is marked, for it would end there again."""
    options, directory = workshop.options, workshop.site.of_model(model)
    corpus = workshop.corpora[model.cased]
    if fingerprint(corpus) != workshop.site.corpora[model.cased]:
        raise ValueError(
            f"{corpus} was built anew from other text by another process: give every text a "
            f"directory of its own with --out"
        )
    if (directory / RECORD).is_file():
        asked = Pretrain(resume=directory, device=options.device, threads=options.threads)
    else:
        asked = Pretrain(
            texts=(corpus,),
            recipe="mini-cpu",
            run=replace(model.run, accumulation=options.accumulation),
            out=directory,
            device=options.device,
            threads=options.threads,
        )
    interruption = Interruption()
    try:
        pretrain(asked, interruption)
    except DivergedError as error:
        write_text(directory / DIVERGED, f"{error}\n")
        if interruption.requested:
            raise KeyboardInterrupt from error


def _score(score: Score, workshop: Workshop) -> None:
    directory, keeps_models = workshop.site.of_score(score), workshop.options.keep_models
    try:
        learning = _learn(score, directory, workshop)
    except KeyboardInterrupt:
        # In the last step of its last run: it is not made again, and nobody else would clear it.
        if is_there(score, workshop.site) and not keeps_models:
            _clear(directory)
        raise
    other = other_of(score)
    if other and workshop.sets.is_there(other):
        _measure_also(score, other, learning, workshop)
    if not keeps_models:
        _clear(directory)


def _learn(score: Score, directory: Path, workshop: Workshop) -> LearningSet[Any, Any, Any]:
    """Carries out all runs of a cell."""
    _forget_what_was_cleared(directory)
    learning = workshop.sets.of(score)
    model = _place_of(score.model, workshop.site)
    if isinstance(score.model, Pretrained):
        model = at_full_length(score.model, model, directory)
    request: dict[str, object] = {
        "model": str(model.resolve()),
        "examples": workshop.sets.source(score),
        "max_tokens": score.max_tokens,
        "most_examples": score.most_examples,
    }
    grid = grid_of(score)
    accumulation = min(workshop.options.accumulation, *grid.batch_sizes, score.run.batch_size)
    if (directory / SEARCH).is_file():
        # Equal in all that decides, or it would lie elsewhere; files may have moved.
        begun = read_search_record(directory)
        request, accumulation = begun.request, begun.run.accumulation
    job = SearchJob(
        model=str(model),
        run=replace(score.run, keep_head=isinstance(score.model, Tuned), accumulation=accumulation),
        grid=grid,
        restarts=score.restarts,
        directory=directory,
        request=request,
        command=shlex.join(["bertsmith", *sys.argv[1:]]),
        device=workshop.device,
    )
    try:
        search_runs(job, learning, Console(quiet=not workshop.options.verbose))
    except ValueError:
        if not has_ended(score, directory):  # where every run failed, that is what was found
            raise
    return learning


def _measure_also(
    score: Score, exam: str, learning: LearningSet[Any, Any, Any], workshop: Workshop
) -> None:
    """Scores the model of every run that has one on another set's Dev examples."""
    directory = workshop.site.of_score(score)
    source = source_of(EXAMS[exam], workshop.site.data, score.options)
    labelled = labelled_examples(source, learning.task, "dev")
    scores: dict[str, dict[str, float]] = {}
    for name in (each.name for each in read_results(directory).runs.values() if each.scores):
        loaded = store.load(find_model(directory / name))
        precision = choose_precision(score.run.precision, workshop.device)
        dev = read_examples(labelled.task, labelled.examples, loaded, "Dev")
        scores[name] = dev.scores(dev.answers(answering_model(loaded, precision, workshop.device)))
    known = read_json(directory / ALSO) if (directory / ALSO).is_file() else {}
    measured = {"examples": workshop.site.hash_of(exam), "scores": scores}
    write_json(directory / ALSO, {**known, exam: measured})


def _forget_what_was_cleared(directory: Path) -> None:
    """Deletes runs that ended well and have no weights: they are asked for again."""
    for each in read_results(directory).runs.values():
        if each.scores and not has_weights(directory / each.name):
            shutil.rmtree(directory / each.name)


def _clear(directory: Path) -> None:
    """Deletes weights and kept hidden states; scores, metrics and reports stay."""
    remove_leftovers(directory)
    for run in directory.iterdir():
        for kept in ("checkpoints", BEST):
            shutil.rmtree(run / kept, ignore_errors=True)
    for kept in (BEST, BEGUN_WITH, "features"):
        shutil.rmtree(directory / kept, ignore_errors=True)
