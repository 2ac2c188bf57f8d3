"""`bertsmith evaluate`: a fine-tuned model and labelled examples -> its scores, with intervals.

    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE
    bertsmith evaluate runs/mini-en-texts-reviews --texts others.csv
    bertsmith evaluate runs/mini-en-RTE --glue GLUE --task RTE --report FOLDER     with pictures
    bertsmith evaluate runs/first runs/second --glue GLUE --task RTE               an ensemble
    bertsmith evaluate runs/first runs/second --squad dev.json --out ANSWERS       and its answers

Columns that are not named are those that the model learned from, where the file has them. Of
several models each is scored by itself, then all as one: their probabilities are averaged.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console

from bertsmith.answering import rest_of
from bertsmith.checkpoints import store
from bertsmith.commands.examples import labelled_examples, scored_together, source_of
from bertsmith.commands.finetune_options import Evaluate
from bertsmith.commands.score_predictions import score_predictions
from bertsmith.commands.seen_examples import seen_note
from bertsmith.commands.sources.remembered import remembered
from bertsmith.commands.squad_files import write_squad_files
from bertsmith.commands.task_files import typed_words
from bertsmith.runs.ancestry import precision_of
from bertsmith.runs.answers_report import Described, require_place, told, write_report
from bertsmith.runs.ensemble import Member, as_one, require_fit
from bertsmith.runs.finetune_report import answering_model, report
from bertsmith.runs.learning_set import ReadExamples, read_examples
from bertsmith.runs.progress import say
from bertsmith.tasks.classify import TextExample
from bertsmith.tasks.imported import read_own_task
from bertsmith.tasks.squad_evaluation import how_scored
from bertsmith.tasks.stored import TASK, read_learned, read_task
from bertsmith.tasks.task import SpanAnswering
from bertsmith.train.config import Precision
from bertsmith.train.device import (
    choose_device,
    choose_precision,
    has_precision,
    recorded_precision,
)

__all__ = ["Evaluate", "evaluate"]


def evaluate(options: Evaluate) -> None:
    """Prints the models' scores on the examples that the options name, by themselves and as one.

    Raises ValueError for a model without a head or without a task, for examples of another kind or
    with other labels, and for models that do not read them alike.
    """
    if options.predictions is not None:
        score_predictions(options, options.predictions)
        return
    _require_models(options)
    _require_out(options)
    sources, missing = scored_together(source_of(options.files))
    reports = _reports(options.report, sources)
    device, console = choose_device(options.device), Console()
    if options.precision is not None:
        rest = rest_of(options.precision, device)
        if options.precision == "int8":
            say(console, f"note: computed in int8, the rest in {rest}; training was not")
    for note in missing:
        say(console, f"note: {note}")
    sets = _answered(options, sources, device, console)
    for which, members in sets.items() if options.models[1:] else ():
        for member in members:
            _say_scores(console, f"{which}, {member.name}", member, None)
    for (which, members), folder in zip(sets.items(), reports, strict=True):
        joint = as_one(members)
        name = f"{which}, {joint.name}" if members[1:] else which
        answers = _say_scores(console, name, joint, folder)
        _write_answers(options.out, joint, answers)


def _require_models(options: Evaluate) -> None:
    if options.null_odds is not None or options.squad_version is not None:
        raise ValueError("--null-odds and --squad-version go with --predictions: leave them out")
    if not options.models:
        raise ValueError("name a model to score, or answers that it gave with --predictions FILE")
    if twice := [name for name in options.models if options.models.count(name) > 1]:
        raise ValueError(f"{twice[0]} stands there twice: an ensemble takes each model once")


def _require_out(options: Evaluate) -> None:
    """Raises ValueError where answers cannot be written, or would stand among other files."""
    out = options.out
    if out is None:
        return
    if options.files.squad is None:
        raise ValueError(
            "--out writes answers for SQuAD's official evaluator: name questions with --squad, or "
            "leave it out"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"{out} exists: --out writes a new folder, name another one")


def _write_answers(out: Path | None, member: Member, answers: Sequence[Any]) -> None:
    """The files of the official evaluator, where they are asked for."""
    task: object = member.examples.task
    if out is not None and isinstance(task, SpanAnswering):
        write_squad_files(out, member.examples.examples, answers, task.config)


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


def _answered(
    options: Evaluate,
    sources: Sequence[Mapping[str, object]],
    device: torch.device,
    console: Console,
) -> dict[str, list[Member]]:
    """What every model says of each set of examples, by what the set is called.

    All of them read the examples before one is asked: what does not fit is told at once.
    """
    sets: dict[str, list[Member]] = {}
    told: set[str] = set()
    for name in options.models:
        of_model, notes = _read(name, sources, options)
        for note in (note for note in notes if note not in told):
            say(console, f"note: {note}")
        told.update(notes)
        for which, read in of_model:
            member = Member(name=name, examples=read, item_scores=())
            members = sets.setdefault(which, [])
            require_fit(member, members[0] if members else member)
            members.append(member)
    for number, name in enumerate(options.models):
        loaded = store.load(name)
        precision, note = _precision(options, loaded.directory, device)
        if note and note not in told:
            say(console, f"note: {note}")
            told.add(note)
        model = answering_model(loaded, precision, device)
        for members in sets.values():
            said = members[number].examples.item_scores(model)
            members[number] = replace(members[number], item_scores=said)
    return sets


def _read(
    name: str, sources: Sequence[Mapping[str, object]], options: Evaluate
) -> tuple[list[tuple[str, ReadExamples[Any, Any, Any]]], list[str]]:
    """Every set of examples as a model reads it, by what the set is called; and notes."""
    loaded = store.load(name)
    sets: list[tuple[str, ReadExamples[Any, Any, Any]]] = []
    loaded.task_head()  # or it is refused here
    own = options.files.task_class
    task = read_own_task(loaded.directory, own) if own else read_task(loaded.directory)
    if task is None:
        raise ValueError(
            f"{loaded.directory} has no {TASK}, which says how its task reads examples: evaluate a "
            f"run of bertsmith finetune"
        )
    learned = read_learned(loaded.directory)
    added = [remembered(each, learned) for each in sources]
    notes = [*loaded.notes]
    for each, more in zip(sources, added, strict=True):
        try:
            labelled = labelled_examples({**each, **more}, task, options.split)
            read = read_examples(
                labelled.task,
                labelled.examples,
                loaded,
                labelled.name,
                skip_malformed=options.files.skip_malformed,
            )
        except ValueError as error:
            raise ValueError(f"{error} (scoring {name})") from error
        if more:
            notes.append(f"read as the model's own rows: {shlex.join(typed_words(more))}")
        notes += [*labelled.notes, *read.notes]
        notes += filter(None, [seen_note(loaded.directory, each, options.split)])
        first: object = labelled.examples[0]
        if isinstance(first, TextExample) and (note := learned.told_texts(len(first.texts))):
            notes.append(note)
        sets.append((labelled.name, read))
    return sets, notes


def _precision(
    options: Evaluate, model: Path, device: torch.device
) -> tuple[Precision | Literal["int8"], str]:
    """As asked; else the run's own, so that scores are the same again, where the device has it.

    And what is to be told of it.
    """
    if options.precision == "int8":
        return "int8", ""
    if options.precision is not None:
        return choose_precision(options.precision, device), ""
    choice = precision_of(model)
    precision = recorded_precision(choice, device)
    is_missing = not has_precision(choice, device)
    note = f"{choice}, which the run scored its model in, is not here: computed in {precision}"
    return precision, note if is_missing else ""


def _say_scores(console: Console, which: str, member: Member, folder: Path | None) -> Sequence[Any]:
    """What there is to say of a model, or of several as one; a folder gets the report.

    Returns the answers.
    """
    read = member.examples
    say(console, f"{which}, {len(read.examples):,} examples:")
    answers = read.decoded(member.item_scores)
    scores, known = report(read, answers), read.judged(member.item_scores, answers)
    task: object = read.task
    how = []
    if isinstance(task, SpanAnswering):
        how.append(how_scored(read.examples, answers, task.config, task.version))
    lines = [*(f"  {line}" for line in how), *scores.lines(), *told(known)]
    if folder is not None:
        title, before = f"{member.name} evaluated", tuple(f"{line}.\n" for line in how)
        described = Described(title=title, examples=which, before=before)
        lines += write_report(folder, described, scores, known)
    for line in lines:
        say(console, line)
    return answers
