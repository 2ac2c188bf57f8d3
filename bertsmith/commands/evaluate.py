"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
"""

from __future__ import annotations

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, scored_together, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
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
        score_predictions(options, options.predictions)
        return
    if options.null_odds is not None or options.squad_version is not None:
        raise ValueError("--null-odds and --squad-version go with --predictions: leave them out")
    if not options.model:
        raise ValueError("name a model to score, or answers that it gave with --predictions FILE")
    source = source_of(options.files)
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
        read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
        for note in (*labelled.notes, *read.encoded.notes):
            say(console, f"note: {note}")
        say(console, f"{labelled.name}, {len(labelled.examples):,} examples:")
        for line in report(read, read.answers(model)).lines():
            say(console, line)
