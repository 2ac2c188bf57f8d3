"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
    bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
    bertsmith evaluate runs/first runs/second --glue GLUE --task RTE               an ensemble

Of several models each is scored by itself, then all as one: their probabilities are averaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, scored_together, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.ensemble import Member, as_one, require_fit
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import read_examples
from bertsmith.runs.progress import say
from bertsmith.tasks.imported import read_own_task
from bertsmith.tasks.stored import TASK, read_task
from bertsmith.train.device import choose_device, choose_precision

__all__ = ["Evaluate", "evaluate"]


def evaluate(options: Evaluate) -> None:
    """Prints the models' scores on the examples that the options name, by themselves and as one.

    Raises ValueError for a model without a head or without a task, for examples of another kind or
    with other labels, and for models that do not read them alike.
    """
    if options.predictions is not None:
        if options.report is not None:
            raise ValueError("--report shows what a model answers: leave it or --predictions out")
        score_predictions(options, options.predictions)
        return
    _require_sound(options)
    device, console = choose_device(options.device), Console()
    together: dict[str, list[Member]] = {}
    for name in options.models:
        for which, member in _answered(name, options, device, console):
            members = together.setdefault(which, [])
            if members:
                require_fit(member, members[0])
            members.append(member)
            if options.models[1:]:
                _say_scores(console, which, member, None)
    for which, members in together.items():
        folder = options.report
        if folder is not None and len(together) > 1:
            folder /= which.replace(" ", "-")
        _say_scores(console, which, as_one(members), folder)


def _require_sound(options: Evaluate) -> None:
    """Raises ValueError and FileNotFoundError for what the options alone show to be wrong."""
    if options.null_odds is not None or options.squad_version is not None:
        raise ValueError("--null-odds and --squad-version go with --predictions: leave them out")
    if not options.models:
        raise ValueError("name a model to score, or answers that it gave with --predictions FILE")
    if twice := [name for name in options.models if options.models.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice: an ensemble takes each model once")
    source_of(options.files)
    if options.report is not None:
        require_place(options.report)


def _answered(
    name: str, options: Evaluate, device: torch.device, console: Console
) -> Iterator[tuple[str, Member]]:
    """What a model says of every set of examples that is asked for, by the set's name."""
    loaded = store.load(name)
    model = answering_model(loaded, choose_precision("auto", device), device)
    own = options.files.task_class
    task = read_own_task(loaded.directory, own) if own else read_task(loaded.directory)
    if task is None:
        raise ValueError(
            f"{loaded.directory} has no {TASK}, which says how its task reads examples: evaluate a "
            f"run of bertsmith finetune"
        )
    sources, missing = scored_together(source_of(options.files))
    sets = [labelled_examples(each, task, options.split) for each in sources]
    for note in (*loaded.notes, *missing):
        say(console, f"note: {note}")
    for labelled in sets:
        read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
        for note in (*labelled.notes, *read.encoded.notes):
            say(console, f"note: {note}")
        item_scores = read.item_scores(model)
        yield labelled.name, Member(name=name, examples=read, item_scores=item_scores)


def _say_scores(console: Console, which: str, member: Member, folder: Path | None) -> None:
    """What there is to say of a model, or of several as one; a folder gets the report."""
    read, item_scores = member.examples, member.item_scores
    say(console, f"{which}, {len(read.examples):,} examples, {member.name}:")
    answers = read.decoded(item_scores)
    scores, known = report(read, answers), read.judged(item_scores, answers)
    lines = [*scores.lines(), *told(known)]
    if folder is not None:
        described = Described(title=f"{member.name} evaluated", examples=which)
        lines += write_report(folder, described, scores, known)
    for line in lines:
        say(console, line)
