"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
    bertsmith evaluate runs/first runs/second runs/third --glue GLUE --task RTE

Of several models each is scored by itself, and all as one: their probabilities are averaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.ensemble import Member, differing_task, ensemble_answers, require_fit
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import ReadExamples, read_examples
from bertsmith.runs.progress import say
from bertsmith.tasks.classify import TextAnswer, TextExample
from bertsmith.tasks.stored import TASK, read_task
from bertsmith.tasks.task import Classification, EncodedTexts
from bertsmith.train.device import choose_device, choose_precision

__all__ = ["Evaluate", "evaluate"]


def evaluate(options: Evaluate) -> None:
    """Prints the models' scores on the examples that the options name, by themselves and as one.

    Raises ValueError for a model without a head or without a task, for examples of another kind or
    with other labels, and for models that do not read them alike.
    """
    if not options.models:
        raise ValueError("name a model: bertsmith evaluate RUN --glue DIR --task RTE")
    if twice := [name for name in options.models if options.models.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice: an ensemble takes each model once")
    source = source_of(options.files)
    device = choose_device(options.device)
    examples, notes = labelled_examples(source, options.split)
    console = Console()
    for note in notes:
        say(console, f"note: {note}")
    told = f"{options.split} of {source['task']}, {len(examples):,} examples"
    members: list[Member] = []
    for name in options.models:
        read, model = _read(name, examples, options.split, device, console)
        if members:
            require_fit(name, read, members[0])
            for note in differing_task(name, read.task, members[0]):
                say(console, f"note: {note}")
        members.append(Member(name=name, examples=read, item_scores=read.item_scores(model)))
        _say_scores(console, f"{told}, {name}:" if options.models[1:] else f"{told}:", members[-1:])
    if len(members) > 1:
        _say_scores(console, f"{told}, the ensemble of {len(members)}:", members)


def _read(
    name: str,
    examples: Sequence[TextExample],
    split: str,
    device: torch.device,
    console: Console,
) -> tuple[ReadExamples[TextExample, EncodedTexts, TextAnswer], TaskModel]:
    """The examples as a model reads them, and the model."""
    loaded = store.load(name)
    for note in loaded.notes:
        say(console, f"note: {note}")
    model = answering_model(loaded, choose_precision("auto", device), device)
    task = read_task(loaded.directory)
    if task is None:
        raise ValueError(
            f"{loaded.directory} has no {TASK}, which says how its task reads examples: evaluate a "
            f"run of bertsmith finetune"
        )
    if not isinstance(task, Classification):
        raise ValueError(
            f"{loaded.directory} learned {type(task).__name__}, and the examples of GLUE are texts "
            f"with labels"
        )
    return read_examples(task, examples, loaded, split), model


def _say_scores(console: Console, told: str, members: Sequence[Member]) -> None:
    say(console, told)
    for line in report(members[0].examples, ensemble_answers(members)).lines():
        say(console, line)
