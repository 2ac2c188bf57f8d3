"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, scored_together, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
from bertsmith.model.task_model import TaskModel
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import AnswerT, EncodedT, ExampleT, ReadExamples, read_examples
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
    sources, missing = scored_together(source_of(options.files))
    reports = _reports(options.report, sources)
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
    sets = [labelled_examples(each, task, options.split) for each in sources]
    console = Console()
    for note in (*loaded.notes, *missing):
        say(console, f"note: {note}")
    for labelled, folder in zip(sets, reports, strict=True):
        read = read_examples(labelled.task, labelled.examples, loaded, labelled.name)
        for note in (*labelled.notes, *read.encoded.notes):
            say(console, f"note: {note}")
        say(console, f"{labelled.name}, {len(labelled.examples):,} examples:")
        described = Described(title=f"{options.model} evaluated", examples=labelled.name)
        for line in _scored(read, model, described, folder):
            say(console, line)


def _reports(folder: Path | None, sources: Sequence[Mapping[str, object]]) -> list[Path | None]:
    """Where the report on each goes, of several in folders of their own; None without one.

    Raises ValueError where other files stand.
    """
    if folder is None:
        return [None] * len(sources)
    several = len(sources) > 1
    places = [folder / str(each["task"]) if several else folder for each in sources]
    for place in places:
        require_place(place)
    return [*places]


def _scored(
    read: ReadExamples[ExampleT, EncodedT, AnswerT],
    model: TaskModel,
    described: Described,
    folder: Path | None,
) -> list[str]:
    """The scores, a line each; and a report where one is asked for."""
    item_scores = read.item_scores(model)
    answers = read.decoded(item_scores)
    scores, known = report(read, answers), read.judged(item_scores, answers)
    written = [] if folder is None else write_report(folder, described, scores, known)
    return [*scores.lines(), *told(known), *written]
