"""A model's directory -> the runs that it came out of, the newest first, a line each.

A run that begins with the model of another keeps these lines in its record, so that they outlive
the other one's directory. It does not know what the runs did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from bertsmith.checkpoints.places import BEST
from bertsmith.checkpoints.prefixes import find_prefix
from bertsmith.checkpoints.searches import SEARCH
from bertsmith.files import read_json
from bertsmith.runs.directory import RECORD, is_pretraining, read_record
from bertsmith.runs.finetune_record import SCORES, read_finetune_record
from bertsmith.runs.search_record import chosen_run, read_search_record
from bertsmith.train.config import PrecisionChoice

_CHECKPOINTS = "checkpoints"
_STEP = re.compile(r"step-\d+")


def told_name(model: Path) -> str:
    """What to call a model: its directory; of one that a run made, the run's before it.

    One of the TensorFlow checkpoints in a directory is called by both.
    """
    run = _run_around(model)
    if run is None and not model.is_dir() and find_prefix(model):
        run = model.parent
    return model.name if run is None else f"{run.name}/{model.relative_to(run).as_posix()}"


def ancestry(model: Path) -> tuple[str, ...]:
    """The run that made the model, then what that one began with; empty for any other model."""
    run = _run_around(model)
    if run is None:
        return ()
    if (run / SEARCH).is_file():
        return _of_search(run)
    if is_pretraining(run):
        record = read_record(run)
        step = int(model.name.removeprefix("step-"))
        first = f"{run.name}: step {step:,} of {record.run.num_steps:,} of `{record.command}`"
        return (first + (f", from {record.model}" if record.model else ""), *record.ancestry)
    begun = read_finetune_record(run)
    first = f"{run.name}: {_which(run, model)} of `{begun.command}`, from {begun.model}"
    return (first, *begun.ancestry)


def precision_of(model: Path) -> PrecisionChoice:
    """What the run that made a fine-tuned model computed and scored it in; else `auto`.

    Of a search, what the run of its model did, where its directory is still there. Raises as
    `read_finetune_record` does.
    """
    run = _run_around(model)
    if run is not None and (run / SEARCH).is_file():
        chosen = chosen_run(run)
        if chosen is None or not (run / chosen / RECORD).is_file():
            return read_search_record(run).run.precision
        run = run / chosen
    if run is None or is_pretraining(run):
        return "auto"
    return read_finetune_record(run).run.precision


def examples_of(model: Path) -> Iterator[Mapping[str, object]]:
    """What the runs that made a fine-tuned model were asked to learn from, as options.

    The newest first, each whose directory is there, up to the one that is not a fine-tuning's or a
    search's. They are known by their places: a directory that was used again holds another run.
    Raises as `read_finetune_record` does, and OSError where an earlier run may not be read.
    """
    read: set[Path] = set()
    place: Path | None = model
    while place is not None and (run := _run_around(place)) is not None and run not in read:
        if is_pretraining(run):
            return
        read.add(run)
        one_run: Path | None = run
        if (run / SEARCH).is_file():
            chosen = chosen_run(run)
            one_run = run / chosen if chosen and (run / chosen / RECORD).is_file() else None
        begun = None if one_run is None else read_finetune_record(one_run)
        request = read_search_record(run).request if begun is None else begun.request
        examples = request.get("examples")
        if isinstance(examples, Mapping):
            yield examples
        place = None if begun is None else Path(begun.model)


def _of_search(search: Path) -> tuple[str, ...]:
    """A search's model is that of the run that was chosen, whose directory may be gone."""
    record, chosen = read_search_record(search), chosen_run(search)
    if chosen is None or not (search / chosen / RECORD).is_file():
        return (f"{search.name}: the best of `{record.command}`",)
    begun = read_finetune_record(search / chosen)
    first = f"{search.name}: the best on Dev, {chosen}, of `{record.command}`"
    return (f"{first}, from {begun.model}", *begun.ancestry)


def _which(run: Path, model: Path) -> str:
    """Which of the run's models it is."""
    if model.name != BEST:
        return f"step {int(model.name.removeprefix('step-')):,}"
    if not (run / SCORES).is_file():
        return "the best so far on Dev"
    return f"step {read_json(run / SCORES)['step']:,}, the best on Dev,"


def _run_around(model: Path) -> Path | None:
    """The directory of the run or the search that a model lies in; None outside of them."""
    place = model.parent
    if place.name == _CHECKPOINTS and _STEP.fullmatch(model.name):  # a copy beside them is none
        place = place.parent
    elif model.name != BEST:
        return None
    return place if any((place / name).is_file() for name in (RECORD, SEARCH)) else None
