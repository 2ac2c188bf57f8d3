"""What finished cells have found <-> rows of a JSON Lines file, for other machines to go on from.

A row holds scores and no weights: a table can be made of rows alone, and what a model is needed for
still is learned from text again. Rows lie where the cells' own results would, so whoever looks for
these finds them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bertsmith.checkpoints.searches import RESULTS, SEARCH
from bertsmith.files import lock, read_json, write_json, write_text
from bertsmith.recipes.experiments.experiment import Perplexity, Score
from bertsmith.runs.directory import RECORD
from bertsmith.runs.experiments.places import Site
from bertsmith.runs.experiments.presence import (
    ALSO,
    Measured,
    is_there,
    perplexity_file,
    perplexity_reached,
    points_of,
)
from bertsmith.runs.search_record import name_of

ROWS = "rows.jsonl"
"""In the directory of the experiments: what all finished cells have found."""
_ROW = "row.json"


def write_rows(path: Path, cells: Mapping[str, Measured], site: Site) -> None:
    """Writes a row for every cell that is found, by its title for a person.

    Rows of other cells that stand in the file stay. Raises InUseError while another process writes.
    """
    with lock(path.with_name(f".{path.name}.lock")):
        rows = {row["cell"]: row for _, row in _read(path)} if path.is_file() else {}
        for title, cell in cells.items():
            if is_there(cell, site) and (row := _row(title, cell, site)):
                rows[row["cell"]] = row
        lines = [f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows.values()]
        write_text(path, "".join(lines))


def lay_rows(path: Path, cells: Iterable[Measured], site: Site) -> int:
    """Puts rows of these cells where their results would be; says how many cells they found.

    What was begun here stays as it is. Raises ValueError, with its line, for what is no row.
    """
    places = {_place(cell, site): cell for cell in cells}
    found = 0
    for number, row in _read(path):
        cell = places.get(row["cell"])
        if cell is None or is_there(cell, site):
            continue
        try:
            _lay(row, cell, site)
        except (KeyError, TypeError, AttributeError) as error:
            raise _no_row(path, number, error) from error
        found += is_there(cell, site)
    return found


def _read(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows with the number of their line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row: dict[str, Any] = json.loads(line)
            row["cell"] + ""
        except (KeyError, TypeError, json.JSONDecodeError) as error:
            raise _no_row(path, number, error) from error
        yield number, row


def _no_row(path: Path, number: int, error: Exception) -> ValueError:
    return ValueError(
        f"{path}, line {number}: no row of a finished cell ({error!r}); rows are what "
        f"`bertsmith reproduce` writes to {ROWS} in its directory"
    )


def _place(cell: Measured, site: Site) -> str:
    """What tells a cell from all others: its directory in any site's."""
    directory = site.of(cell.model if isinstance(cell, Perplexity) else cell)
    return directory.relative_to(site.directory).as_posix()


def _row(title: str, cell: Measured, site: Site) -> dict[str, Any]:
    """Empty for a cell that never has a number."""
    about: dict[str, object] = {"cell": _place(cell, site), "title": title}
    laid = _laid(cell, site)
    if laid.is_file():
        return read_json(laid)
    if isinstance(cell, Perplexity):
        reached = perplexity_reached(cell, site)
        if reached is None:
            return {}
        versions = read_json(site.of_model(cell.model) / RECORD)["versions"]
        return {**about, "perplexity": reached[0], "seconds": reached[1], "versions": versions}
    directory = site.of_score(cell)
    if not (directory / RESULTS).is_file():
        return {}
    also = {"also": read_json(directory / ALSO)} if (directory / ALSO).is_file() else {}
    versions = read_json(directory / SEARCH)["versions"]
    return {**about, "results": read_json(directory / RESULTS), **also, "versions": versions}


def _lay(row: Mapping[str, Any], cell: Measured, site: Site) -> None:
    if isinstance(cell, Score):
        directory = site.of_score(cell)
        if (directory / SEARCH).is_file():
            return
        ended = {str(each["name"]) for each in row["results"]["runs"]}
        for name in ended & {name_of(run) for point in points_of(cell) for run in point}:
            (directory / name).mkdir(parents=True, exist_ok=True)
        if "also" in row:
            write_json(directory / ALSO, row["also"])
        write_json(directory / RESULTS, row["results"])
    elif not {"perplexity", "seconds"} <= row.keys():
        raise KeyError("perplexity")
    write_json(_laid(cell, site), row)


def _laid(cell: Measured, site: Site) -> Path:
    """Where a row lies, to be handed on: beside the results that it holds."""
    if isinstance(cell, Perplexity):
        return perplexity_file(cell, site)
    return site.of_score(cell) / _ROW
