"""Lines of a file -> what other machines have found of an experiment's cells.

`handing_on` writes such lines. They are read and lie nowhere else: where a cell is whole here, what
was found here counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertsmith.runs.search_record import Results, content_of, results_of

FOUND = "found.jsonl"
"""In the directory of the experiments: a line for every finished cell."""
IS_ELSEWHERE = "is_elsewhere"
"""In a line that is handed on and was not found in this directory."""


@dataclass(frozen=True, kw_only=True)
class HandedOn:
    """What another machine has found of a cell."""

    results: Results = field(default_factory=lambda: Results(runs={}, ensembles={}))
    """Of a fine-tuned cell's runs."""
    also: Mapping[str, Any] = field(default_factory=dict)
    """What its models reach on other sets: what `also.json` holds."""
    perplexity: float | None = None
    """Of a perplexity; None too where no documents were held out."""
    seconds: float = 0.0
    """Of its training."""
    line: Mapping[str, Any]
    """All of it, to be handed on."""

    def covers(self, other: HandedOn) -> bool:
        """Whether it has every run, ensemble and set that the other has."""
        return (
            self.results.runs.keys() >= other.results.runs.keys()
            and self.results.ensembles.keys() >= other.results.ensembles.keys()
            and self.also.keys() >= other.also.keys()
        )


def read_found(paths: Sequence[Path]) -> dict[str, HandedOn]:
    """By the cell's directory; several lines of one cell are one that has what any of them has.

    Raises FileNotFoundError, and ValueError, with file and line, for what is no finished cell's.
    """
    found: dict[str, HandedOn] = {}
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: no such file of found cells (--found)")
        # Not splitlines: a title may hold what Unicode counts as the end of a line.
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not line.strip():
                continue
            try:
                each = handed_on(json.loads(line))
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number}: not what a finished cell has found ({error!r}); such "
                    f"lines are what `bertsmith reproduce` writes to {FOUND} in its directory"
                ) from error
            add(found, each)
    return found


def add(found: dict[str, HandedOn], each: HandedOn) -> None:
    """Puts it in its cell's place, with what was there and it lacks."""
    cell = each.line["cell"]
    before = found.get(cell)
    if before is None or each.covers(before):
        found[cell] = each
    elif not before.covers(each):
        found[cell] = _together(before, each)


def _together(before: HandedOn, after: HandedOn) -> HandedOn:
    """Runs, ensembles and sets of both; of what both have, the later."""
    runs = {**before.results.runs, **after.results.runs}
    ensembles = {**before.results.ensembles, **after.results.ensembles}
    results = Results(runs=runs, ensembles=ensembles)
    also = {**before.also, **after.also}
    for exam in before.also.keys() & after.also.keys():
        if before.also[exam]["examples"] == after.also[exam]["examples"]:
            scores = {**before.also[exam]["scores"], **after.also[exam]["scores"]}
            also[exam] = {**after.also[exam], "scores": scores}
    seconds = sum(run.seconds for run in runs.values())
    said: dict[str, object] = dict(results=content_of(results), also=also, seconds=seconds)
    precisions = {
        word for each in (before, after) for word in str(each.line.get("precision", "")).split()
    }
    if precisions:
        said["precision"] = " ".join(sorted(precisions))
    return handed_on({**before.line, **after.line, **said})


def handed_on(content: Mapping[str, Any]) -> HandedOn:
    """What a line says. Raises KeyError, TypeError or AttributeError where it is none."""
    seconds = _number(content["seconds"])
    _text(content["cell"])
    if "results" not in content:
        perplexity = content["perplexity"]
        return HandedOn(
            perplexity=None if perplexity is None else _number(perplexity),
            seconds=seconds,
            line=content,
        )
    results = results_of(content["results"])
    also: Mapping[str, Any] = content["also"]
    for run in results.runs.values():
        _number(run.seconds)
        _text(run.failure)
    for each in also.values():
        _text(each["examples"])
    others = [scores for each in also.values() for scores in each["scores"].values()]
    for ensemble in results.ensembles.values():
        others.append(ensemble.scores)
    for scores in (*(run.scores for run in results.runs.values()), *others):
        for value in scores.values():
            _number(value)
    return HandedOn(results=results, also=also, seconds=seconds, line=content)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value
