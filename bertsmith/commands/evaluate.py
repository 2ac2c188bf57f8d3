"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
    bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
    bertsmith evaluate runs/first runs/second runs/third --glue GLUE --task RTE

Of several models each is scored by itself, and all as one: their probabilities are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.ensemble import Member, ensemble_answers, require_fit
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import ReadExamples, read_examples
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
        score_predictions(options, options.predictions)
        return
    if options.null_odds is not None or options.squad_version is not None:
        raise ValueError("--null-odds and --squad-version go with --predictions: leave them out")
    if not options.models:
        raise ValueError("name a model to score, or answers that it gave with --predictions FILE")
    if twice := [name for name in options.models if options.models.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice: an ensemble takes each model once")
    device, console = choose_device(options.device), Console()
    members: list[Member] = []
    for name in options.models:
        read, told, model = _read(name, options, device, console)
        if members:
            require_fit(name, read, members[0])
        members.append(Member(name=name, examples=read, item_scores=read.item_scores(model)))
        _say_scores(console, f"{told}, {name}:" if options.models[1:] else f"{told}:", members[-1:])
    if len(members) > 1:
        _say_scores(console, f"{told}, the ensemble of {len(members)}:", members)


def _read(
    name: str, options: Evaluate, device: torch.device, console: Console
) -> tuple[ReadExamples[Any, Any, Any], str, TaskModel]:
    """The examples as a model reads them, what to call them, and the model."""
    source, loaded = source_of(options.files), store.load(name)
    model = answering_model(loaded, choose_precision("auto", device), device)
    own = options.files.task_class
    task = read_own_task(loaded.directory, own) if own else read_task(loaded.directory)
    if task is None:
        raise ValueError(
            f"{loaded.directory} has no {TASK}, which says how its task reads examples: evaluate a "
            f"run of bertsmith finetune"
        )
    labelled = labelled_examples(source, task, options.split)
    read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
    for note in (*loaded.notes, *labelled.notes, *read.encoded.notes):
        say(console, f"note: {note}")
    return read, f"{labelled.name}, {len(labelled.examples):,} examples", model


def _say_scores(console: Console, told: str, members: Sequence[Member]) -> None:
    say(console, told)
    for line in report(members[0].examples, ensemble_answers(members)).lines():
        say(console, line)
