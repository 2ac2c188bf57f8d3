"""Lines of a file -> what other machines have found of an experiment's cells.

`handing_on` writes such lines. They are read and lie nowhere else: where a cell has been made here,
what was found here counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertsmith.runs.search_record import Results, results_of

FOUND = "found.jsonl"
"""In the directory of the experiments: a line for every finished cell."""


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


def read_found(paths: Sequence[Path]) -> dict[str, HandedOn]:
    """By the cell's directory; of several lines of one cell the last.

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
                content = json.loads(line)
                found[_text(content["cell"])] = _handed_on(content)
            except (KeyError, TypeError, AttributeError, ValueError) as error:
                raise ValueError(
                    f"{path}, line {number}: not what a finished cell has found ({error!r}); such "
                    f"lines are what `bertsmith reproduce` writes to {FOUND} in its directory"
                ) from error
    return found


def _handed_on(content: Mapping[str, Any]) -> HandedOn:
    seconds = _number(content["seconds"])
    if "results" not in content:
        perplexity = content["perplexity"]
        return HandedOn(
            perplexity=None if perplexity is None else _number(perplexity),
            seconds=seconds,
            line=content,
        )
    results = results_of(content["results"])
    also: Mapping[str, Any] = content["also"]
    runs, ensembles = results.runs.values(), results.ensembles.values()
    others = [scores for each in also.values() for scores in each["scores"].values()]
    for scores in [*(each.scores for each in runs), *(each.scores for each in ensembles), *others]:
        for value in scores.values():
            _number(value)
    for each in also.values():
        _text(each["examples"])
    return HandedOn(results=results, also=also, seconds=seconds, line=content)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"expected a number, found {value!r}")
    return float(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a text, found {value!r}")
    return value
