"""Experiments -> their parts, each once, model by model, in the order in which they are made.

A part is a pre-trained model, two models joined, a model tuned on other examples first, or a cell
with all its restarts. Parts that share everything are one. It makes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bertsmith.commands.reproduction.exam_sets import ExamSets
from bertsmith.recipes.experiments.experiment import (
    Experiment,
    Joined,
    Model,
    Perplexity,
    Pretrained,
    Score,
    made_of,
    models_of,
)
from bertsmith.runs.experiments.places import Site, key_of
from bertsmith.runs.experiments.presence import Measured, is_made, is_there


@dataclass(frozen=True, kw_only=True)
class Part:
    """Something that an experiment needs."""

    what: Model | Score
    key: str
    title: str
    """For a person."""
    is_measured: bool = False
    """Of a model, whether its perplexity is a cell."""

    @property
    def cell(self) -> Measured | None:
        """The cell that it is; None for what is only begun with."""
        what = self.what
        if isinstance(what, Score):
            return what
        if self.is_measured and isinstance(what, Pretrained):
            return Perplexity(model=what)
        return None

    def is_there(self, site: Site) -> bool:
        """Whether nothing of it is to be made."""
        return is_there(self.what, site)

    def is_ready(self, site: Site) -> bool:
        """Whether what it begins with is there."""
        what = self.what
        needed = models_of(what) if isinstance(what, Score) else made_of(what)
        return all(is_made(model, site) for model in needed)


def left_of(parts: Sequence[Part], site: Site) -> list[Part]:
    """Those to be made: cells without numbers, and of models those that such cells begin with."""
    cells = [part.cell for part in parts if part.cell and not is_there(part.cell, site)]
    begun = {key_of(model, site) for cell in cells for model in models_of(cell)}
    return [
        part
        for part in parts
        if (part.cell in cells or part.key in begun) and not part.is_there(site)
    ]


def parts_of(experiments: Sequence[Experiment], site: Site, sets: ExamSets) -> list[Part]:
    """Every part once, each after what it begins with; cells of missing examples are left out.

    A model's cells follow it, those of all experiments: who stops has models of which all is found.
    """
    found: dict[str, Part] = {}
    for part in _all_parts(experiments, site, sets):
        before = found.get(part.key)
        found[part.key] = part if before is None else _merged(before, part)
    order = {key: number for number, key in enumerate(found)}

    def model_first(part: Part) -> int:
        what = part.what
        return order[key_of(what.model, site) if isinstance(what, Score) else part.key]

    return sorted(found.values(), key=model_first)


def _all_parts(experiments: Sequence[Experiment], site: Site, sets: ExamSets) -> Iterator[Part]:
    for experiment in experiments:
        for row, column, cell in experiment.cells():
            if sets.lacks(cell):
                continue
            for model in models_of(cell):
                yield Part(
                    what=model,
                    key=key_of(model, site),
                    title=_named(model),
                    is_measured=isinstance(cell, Perplexity),
                )
            if isinstance(cell, Score):
                title = f"{experiment.name}: {row.title}, {column}"
                yield Part(what=cell, key=key_of(cell, site), title=title)


def _merged(before: Part, part: Part) -> Part:
    """What serves both: as many restarts as either asks for."""
    first, second = before.what, part.what
    if not (isinstance(first, Score) and isinstance(second, Score)):
        return replace(before, is_measured=before.is_measured or part.is_measured)
    is_ensemble = "ensemble" in (first.taken, second.taken)
    what = replace(
        first,
        restarts=max(first.restarts, second.restarts),
        taken="ensemble" if is_ensemble else "mean",
        measured_on=first.measured_on or second.measured_on,
    )
    return replace(before, what=what)


def _named(model: Model) -> str:
    if isinstance(model, Pretrained):
        step = "" if model.step is None else f" up to step {model.step:,}"
        return f"pre-training {model.run.name}{' cased' if model.cased else ''}{step}"
    if isinstance(model, Joined):
        return f"joining {model.left_to_right.run.name} and {model.right_to_left.run.name}"
    begun = made_of(model)[0]
    return f"{_named(begun).removeprefix('pre-training ')}, first on {model.learned.exam}"
