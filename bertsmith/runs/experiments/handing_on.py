"""Finished cells -> lines of a JSON Lines file, for other machines to go on from.

A line holds scores and no weights: a table can be made of lines alone, and a model that some other
cell begins with is learned from text again. It says what the scores depend on and no fingerprint
holds: versions, the processor's instructions, the precision; and how large the set is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.searches import SEARCH
from bertsmith.files import lock, read_json, write_text
from bertsmith.recipes.experiments.experiment import Score
from bertsmith.runs.directory import RECORD
from bertsmith.runs.experiments.elsewhere import (
    IS_ELSEWHERE,
    HandedOn,
    add,
    handed_on,
    read_found,
)
from bertsmith.runs.experiments.found import perplexity_reached
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import (
    Measured,
    is_made,
    is_there,
    outcome_of,
    reason_lost,
)
from bertsmith.runs.search_record import content_of

About = Callable[[Score], Mapping[str, object]]
"""A cell -> what is said of its set, as JSON values."""
SET = "set"
"""In a line, what is said of its set; lines of before have none, and are read all the same."""


def write_found(path: Path, cells: Mapping[str, Measured], site: Site, about: About) -> None:
    """A line for every finished cell, by its title for a person.

    A cell of a model that was lost has none: another machine finds out for itself. A line that the
    file holds stays where the new one lacks something of it. `about` says of a cell how large its
    set is, and where that is not the official one. Raises InUseError while another process writes.
    """
    with lock(path.with_name(f".{path.name}.lock")):
        lines = read_found([path]) if path.is_file() else {}
        for title, cell in cells.items():
            try:
                found = _handed_on(cell, title, site, about)
            except FileNotFoundError:  # another process makes it anew
                continue
            if found is not None:
                add(lines, found)
        rows = (json.dumps(each.line, ensure_ascii=False) for each in lines.values())
        write_text(path, "".join(f"{row}\n" for row in rows))


def _handed_on(cell: Measured, title: str, site: Site, about: About) -> HandedOn | None:
    """What was found here; what was not, as another machine has told it."""
    part = cell if isinstance(cell, Score) else cell.model
    name, directory = site.name_of(part), site.of(part)
    said: dict[str, Any] = {"cell": name, "title": title}
    if not is_there(cell, site):
        return None
    if isinstance(cell, Score):
        said[SET] = dict(about(cell))
        outcome = outcome_of(cell, site)
        if outcome.is_elsewhere:
            # Its name holds the bytes of its set, so that this one is the same.
            return _marked(site.elsewhere[name], {SET: said[SET]})
        if reason_lost(cell.model, site):
            return None
        runs, record = [directory / each for each in outcome.results.runs], directory / SEARCH
        said["results"], said["also"] = content_of(outcome.results), outcome.also
        said["seconds"] = sum(each.seconds for each in outcome.results.runs.values())
    elif is_made(cell.model, site):
        runs, record = [directory], directory / RECORD
        said["perplexity"], said["seconds"] = perplexity_reached(directory)
    else:
        return _marked(site.elsewhere[name], {}) if name in site.elsewhere else None
    said["precision"] = " ".join(sorted({_precision(run) for run in runs}))
    said["versions"] = read_json(record)["versions"]
    return handed_on(said)


def _marked(found: HandedOn, said: Mapping[str, object]) -> HandedOn:
    return replace(found, line={**found.line, **said, IS_ELSEWHERE: True})


def _precision(directory: Path) -> str:
    record: Mapping[str, Any] = read_json(directory / RECORD)
    return str(record["run"]["precision"])
