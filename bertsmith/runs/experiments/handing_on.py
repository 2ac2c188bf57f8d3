"""Finished cells -> lines of a JSON Lines file, for other machines to go on from.

A line holds scores and no weights: a table can be made of lines alone, and a model that some other
cell begins with is learned from text again. It says what the scores depend on and no fingerprint
holds: versions, the processor's instructions, the precision.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.searches import RESULTS, SEARCH
from bertsmith.files import lock, read_json, write_text
from bertsmith.recipes.experiments.experiment import Score
from bertsmith.runs.directory import RECORD
from bertsmith.runs.experiments.elsewhere import read_found
from bertsmith.runs.experiments.found import perplexity_reached
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import (
    Measured,
    is_made,
    is_there,
    outcome_of,
    reason_lost,
)


def write_found(path: Path, cells: Mapping[str, Measured], site: Site) -> None:
    """A line for every finished cell, by its title for a person.

    A cell of a model that was lost has none: another machine finds out for itself. Lines of other
    cells that the file holds stay. Raises InUseError while another process writes.
    """
    with lock(path.with_name(f".{path.name}.lock")):
        before = read_found([path]) if path.is_file() else {}
        lines = {cell: each.line for cell, each in before.items()}
        for title, cell in cells.items():
            if is_there(cell, site) and not reason_lost(cell.model, site):
                line = _line(cell, title, site)
                lines[line["cell"]] = line
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines.values())
        write_text(path, text)


def _line(cell: Measured, title: str, site: Site) -> Mapping[str, Any]:
    """What was found here; what was not, as another machine has told it."""
    part = cell if isinstance(cell, Score) else cell.model
    name, directory = site.name_of(part), site.of(part)
    found: dict[str, Any]
    if isinstance(cell, Score):
        outcome = outcome_of(cell, site)
        if outcome.is_elsewhere:
            return site.elsewhere[name].line
        runs, record = [directory / each for each in outcome.results.runs], directory / SEARCH
        seconds = sum(each.seconds for each in outcome.results.runs.values())
        found = {"results": read_json(directory / RESULTS), "also": outcome.also}
    else:
        if not is_made(cell.model, site):
            return site.elsewhere[name].line
        runs, record = [directory], directory / RECORD
        perplexity, seconds = perplexity_reached(directory)
        found = {"perplexity": perplexity}
    return {
        "cell": name,
        "title": title,
        **found,
        "seconds": seconds,
        "precision": " ".join(sorted({_precision(run) for run in runs})),
        "versions": read_json(record)["versions"],
    }


def _precision(directory: Path) -> str:
    record: Mapping[str, Any] = read_json(directory / RECORD)
    return str(record["run"]["precision"])
