"""What an experiment is: which models, what is measured of them, and what the paper found.

A table of the paper is rows of cells, and a cell names all that it depends on: the pre-training
runs, the examples, the fine-tuning run and its restarts. Two cells that name the same thing share
it, in one table or in two. Nothing here does anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from bertsmith.recipes.finetuning import FinetuneRun, Grid
from bertsmith.recipes.run import PretrainRun

Taken = Literal["mean", "ensemble"]
"""Of restarts: their mean, or their averaged answers."""
Layout = Literal["table", "curves"]
ClaimKind = Literal["higher", "close", "more", "ordered", "above_paper"]


@dataclass(frozen=True, kw_only=True)
class Pretrained:
    """A model that is pre-trained for the experiment."""

    run: PretrainRun
    """`model.vocab_size` is taken from the vocabulary."""
    cased: bool = False
    """Whether its vocabulary keeps capital letters (paper: for named entities)."""
    step: int | None = None
    """The update after which it is taken; None: the last."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """Two models of one direction each, trained apart, their hidden states side by side."""

    left_to_right: Pretrained
    right_to_left: Pretrained


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A model that was fine-tuned on other examples first, and keeps its head."""

    learned: Score
    """How: a single run, without a grid."""

    def __post_init__(self) -> None:
        """Refuses what would be several models."""
        if self.learned.restarts != 1 or self.learned.grid is not None:
            raise ValueError(f"{self.learned.exam} comes first once, found several runs of it")


Model = Pretrained | Joined | Tuned


@dataclass(frozen=True, kw_only=True)
class Score:
    """What fine-tuned models reach on Dev."""

    model: Model
    exam: str
    """A name of `exams.EXAMS`."""
    run: FinetuneRun
    """What all restarts have in common; its seed is the first."""
    restarts: int
    """Seeds."""
    grid: Grid | None = None
    """What is tried, each point with all restarts; the best mean on the exam's own Dev counts."""
    taken: Taken = "mean"
    most_examples: int | None = None
    """A drawn part of the training examples, the same for everybody; None: all of them."""
    max_tokens: int | None = None
    """Of a sequence; None: the exam's own."""
    options: Mapping[str, object] = field(default_factory=dict)
    """How the examples are read, where it is not the exam's own way."""
    metric: str = ""
    """As the task names it; empty: the exam's own."""
    measured_on: str = ""
    """Another exam, whose Dev examples the same models are measured on (MNLI: the other one)."""


@dataclass(frozen=True, kw_only=True)
class Perplexity:
    """exp(loss) of the language model on the held-out documents."""

    model: Pretrained


@dataclass(frozen=True, kw_only=True)
class Average:
    """The mean of other columns of the row, which must all be there (Table 1)."""

    columns: tuple[str, ...]


Cell = Score | Perplexity | Average


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system, its cells in the order of the columns."""

    title: str
    cells: tuple[Cell | None, ...]
    """None where the paper has no figure either, and where a row is only the paper's."""
    paper: tuple[float | None, ...] = ()
    """The paper's figures, in the same order."""
    group: str = ""
    """Of curves: the line that the row is a point of."""
    position: float = 0.0
    """Of curves: where on the line."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A cell."""

    row: str
    column: str


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of the paper that numbers can bear out."""

    sentence: str
    pairs: tuple[tuple[Place, Place], ...]
    """Of `higher`, each first place is above the second; of `close`, no further than `margin`; of
    `ordered`, above it as the numbers are, of which one or both are of a single run; of
    `above_paper`, above the figure that the paper has at the second; of `more`, all of them
    together are further above their second places than those of `against` are."""
    kind: ClaimKind = "higher"
    against: tuple[tuple[Place, Place], ...] = ()
    """Of `more`, what the pairs are compared with, mean gap with mean gap."""
    margin: float = 0.0
    """Of `close`, points; of `ordered`, the share of the larger number within which two are not
    told apart."""
    is_of_pairs: bool = False
    """Whether it depends on which pairs are read: how many are random is told beside its verdict.
    """
    remark: str = ""
    """What a reader of its verdict has to know."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    title: str
    source: str
    """Where in the paper."""
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    """What differs from the paper, and what it is silent on."""
    layout: Layout = "table"
    lower_is_better: frozenset[str] = field(default_factory=frozenset)
    """Columns."""

    def __post_init__(self) -> None:
        """Refuses rows of another width, and claims of cells that are not there."""
        for row in self.rows:
            for name, width in (("cells", len(row.cells)), ("paper", len(row.paper))):
                if width != len(self.columns) and (name == "cells" or width):
                    raise ValueError(
                        f"{self.name}: row {row.title!r} has {width} {name} for "
                        f"{len(self.columns)} columns"
                    )
        titles = {row.title for row in self.rows}
        for claim in self.claims:
            for place in (place for pair in (*claim.pairs, *claim.against) for place in pair):
                if place.row not in titles or place.column not in self.columns:
                    raise ValueError(
                        f"{self.name}: a claim names {place}, which is not in the table"
                    )
            if bool(claim.against) != (claim.kind == "more"):
                raise ValueError(
                    f"{self.name}: `against` is of claims that one gap is more than another, found "
                    f"{claim.kind!r} in {claim.sentence!r}"
                )

    def figure_of_paper(self, place: Place) -> float | None:
        """What the paper has in a cell; None where it has nothing."""
        row = next(row for row in self.rows if row.title == place.row)
        return row.paper[self.columns.index(place.column)] if row.paper else None

    def cells(self) -> Iterator[tuple[Row, str, Cell]]:
        """Every cell that is ours, row by row."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if cell is not None:
                    yield row, column, cell


def models_of(cell: Cell) -> Sequence[Model]:
    """What a cell's model is made of, and last the model itself."""
    if isinstance(cell, Average):
        return ()
    return (*made_of(cell.model), cell.model)


def made_of(model: Model) -> Sequence[Model]:
    """What a model begins with."""
    if isinstance(model, Joined):
        return (model.left_to_right, model.right_to_left)
    return models_of(model.learned) if isinstance(model, Tuned) else ()


def scores_of(cell: Cell) -> Sequence[Score]:
    """What is fine-tuned for a cell: for its model first, and last the cell itself."""
    if not isinstance(cell, Score):
        return ()
    first = cell.model.learned if isinstance(cell.model, Tuned) else None
    return (cell,) if first is None else (*scores_of(first), cell)


def exams_of(cell: Cell) -> Sequence[str]:
    """The sets without which a cell cannot be made."""
    names = [name for each in scores_of(cell) for name in (each.exam, each.measured_on)]
    return list(dict.fromkeys(name for name in names if name))
