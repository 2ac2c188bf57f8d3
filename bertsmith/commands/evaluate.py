"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.checkpoints.store import Loaded
from bertsmith.commands.examples import labelled_examples, scored_together, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
from bertsmith.commands.sources.source import Labelled
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import read_examples
from bertsmith.runs.progress import say
from bertsmith.tasks.imported import read_own_task
from bertsmith.tasks.stored import TASK, read_task
from bertsmith.train.device import choose_device, choose_precision

__all__ = ["Evaluate", "evaluate"]


def evaluate(options: Evaluate) -> None:
    """Prints the model's scores on the examples that the options name.

    Raises ValueError for a model without a head or without a task, and for examples of another kind
    or with other labels.
    """
    if options.predictions is not None:
        if options.report is not None:
            raise ValueError("--report shows what a model answers: leave it or --predictions out")
        score_predictions(options, options.predictions)
        return
    if options.null_odds is not None or options.squad_version is not None:
        raise ValueError("--null-odds and --squad-version go with --predictions: leave them out")
    if not options.model:
        raise ValueError("name a model to score, or answers that it gave with --predictions FILE")
    source = source_of(options.files)
    if options.report is not None:
        require_place(options.report)
    device = choose_device(options.device)
    loaded = store.load(options.model)
    model = answering_model(loaded, choose_precision("auto", device), device)
    own = options.files.task_class
    task = read_own_task(loaded.directory, own) if own else read_task(loaded.directory)
    if task is None:
        raise ValueError(
            f"{loaded.directory} has no {TASK}, which says how its task reads examples: evaluate a "
            f"run of bertsmith finetune"
        )
    sources, missing = scored_together(source)
    sets = [labelled_examples(each, task, options.split) for each in sources]
    console = Console()
    for note in (*loaded.notes, *missing):
        say(console, f"note: {note}")
    for labelled in sets:
        folder = options.report
        if folder is not None and sets[1:]:
            folder /= labelled.name.replace(" ", "-")
        for line in _lines(labelled, loaded, model, options.model, folder):
            say(console, line)


def _lines(
    labelled: Labelled[Any, Any, Any],
    loaded: Loaded,
    model: TaskModel,
    name: str,
    folder: Path | None,
) -> Iterator[str]:
    """What there is to say of one set of examples; a folder gets the report."""
    read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
    yield from (f"note: {note}" for note in (*labelled.notes, *read.encoded.notes))
    yield f"{labelled.name}, {len(labelled.examples):,} examples:"
    item_scores = read.item_scores(model)
    answers = read.decoded(item_scores)
    scores, known = report(read, answers), read.judged(item_scores, answers)
    yield from (*scores.lines(), *told(known))
    if folder is not None:
        described = Described(title=f"{name} evaluated", examples=labelled.name)
        yield from write_report(folder, described, scores, known)
