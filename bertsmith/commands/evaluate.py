"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
"""

from __future__ import annotations

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import read_examples
from bertsmith.runs.progress import say
from bertsmith.tasks.stored import TASK, read_task
from bertsmith.tasks.task import Classification
from bertsmith.train.device import choose_device, choose_precision

__all__ = ["Evaluate", "evaluate"]


def evaluate(options: Evaluate) -> None:
    """Prints the model's scores on the examples that the options name.

    Raises ValueError for a model without a head or without a task, and for examples of another kind
    or with other labels.
    """
    source = source_of(options.files)
    if options.report is not None:
        require_place(options.report)
    device = choose_device(options.device)
    examples, notes = labelled_examples(source, options.split)
    loaded = store.load(options.model)
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
    read = read_examples(task, examples, loaded, options.split)
    console = Console()
    for note in (*loaded.notes, *notes):
        say(console, f"note: {note}")
    say(console, f"{options.split} of {source['task']}, {len(examples):,} examples:")
    item_scores = read.item_scores(model)
    answers = read.decoded(item_scores)
    scores, known = report(read, answers), read.judged(item_scores, answers)
    lines = [*scores.lines(), *told(known)]
    if options.report is not None:
        described = Described(
            title=f"{loaded.directory} evaluated",
            examples=f"{options.split} of {source['task']}",
        )
        lines += write_report(options.report, described, scores, known)
    for line in lines:
        say(console, line)
