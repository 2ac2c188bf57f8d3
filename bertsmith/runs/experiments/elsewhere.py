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
        return self._parts() >= other._parts()

    def _parts(self) -> set[tuple[str, ...]]:
        parts: set[tuple[str, ...]] = {("run", name) for name in self.results.runs}
        parts |= {("ensemble", name) for name in self.results.ensembles}
        return parts | {
            ("also", exam, each["examples"], name)
            for exam, each in self.also.items()
            for name in each["scores"]
        }


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
    """What both have found; a run that both have is the later one, with all that was made of it."""
    own = after.results.runs.keys()
    runs = {**before.results.runs, **after.results.runs}
    left = {n: e for n, e in before.results.ensembles.items() if own.isdisjoint(e.names)}
    also: dict[str, Any] = dict(after.also)
    for exam, each in before.also.items():
        scores = {name: found for name, found in each["scores"].items() if name not in own}
        same = after.also.get(exam, {"examples": each["examples"], "scores": {}})
        if scores and same["examples"] == each["examples"]:  # else of a file that has changed
            also[exam] = {**same, "scores": {**scores, **same["scores"]}}
    said: dict[str, object] = {
        "results": content_of(Results(runs=runs, ensembles={**left, **after.results.ensembles})),
        "also": also,
        "seconds": sum(run.seconds for run in runs.values()),
    }
    return handed_on({**before.line, **after.line, **said, **_origins(before.line, after.line)})


def _origins(*lines: Mapping[str, Any]) -> dict[str, object]:
    """On what the scores of several lines depend: precisions and versions, each once."""
    precisions = {word for line in lines for word in str(line.get("precision", "")).split()}
    versions: dict[str, dict[str, None]] = {}
    for name, version in (each for line in lines for each in line.get("versions", {}).items()):
        versions.setdefault(name, {}).update(dict.fromkeys(str(version).split(", ")))
    said: dict[str, object] = {"precision": " ".join(sorted(precisions))} if precisions else {}
    return said | ({"versions": {n: ", ".join(v) for n, v in versions.items()}} if versions else {})


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
