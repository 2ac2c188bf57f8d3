"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
"""

from __future__ import annotations

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
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
    labelled = labelled_examples(source, task, options.split)
    read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
    console = Console()
    for note in (*loaded.notes, *labelled.notes, *read.encoded.notes):
        say(console, f"note: {note}")
    say(console, f"{labelled.name}, {len(labelled.examples):,} examples:")
    item_scores = read.item_scores(model)
    answers = read.decoded(item_scores)
    scores, known = report(read, answers), read.judged(item_scores, answers)
    lines = [*scores.lines(), *told(known)]
    if options.report is not None:
        described = Described(title=f"{options.model} evaluated", examples=labelled.name)
        lines += write_report(options.report, described, scores, known)
    for line in lines:
        say(console, line)
