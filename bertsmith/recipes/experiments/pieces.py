"""What several tables are made of: claims, notes, the paper's own rows, ensembles, LARGE's part.

It knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from bertsmith.recipes.experiments.experiment import Claim, Place, Pretrained, Row, Score
from bertsmith.recipes.experiments.scales import LAST_FEW, Scale
from bertsmith.recipes.experiments.the_paper import Figures

ENSEMBLE_SIZE = 7
ON_DEV = "The paper's figures are of the test sets, ours of Dev."
OF_OTHERS = (
    "Where a claim is of another system, ours of Dev is compared with the figure that the paper "
    "tells of it, which is of a test set and has no interval here."
)
ONLY_DEV = "Nobody but the benchmark has the labels of its test set: ours are of Dev alone."
UNCASED = (
    "Named entities are read by the uncased model here, and by a cased one in the paper: lower "
    "scores, the same comparison."
)


def notes_on_entities(scale: Scale) -> tuple[str, ...]:
    """How far named entities are read otherwise than in the paper."""
    size = scale.base.model.num_hidden_layers
    shallow = f"The model has {size} layers here: its last {LAST_FEW} are all of them."
    return (
        *(() if scale.cased_entities else (UNCASED,)),
        *(() if size > LAST_FEW else (shallow,)),
    )


def notes_on_first_vectors(scale: Scale, bearing: str) -> tuple[str, ...]:
    """That embeddings began as counted vectors, and what that bears on; nothing if they did not."""
    if not scale.base.count_embeddings:
        return ()
    return (
        "Token embeddings begin as vectors counted from neighbours on both sides in the text, in "
        f"the paper as drawn ones: {bearing}.",
    )


def dev_score(scale: Scale, model: Pretrained, exam: str) -> Score:
    """As Tables 5 and 6 tell it: paraphrases in accuracy, of which GLUE counts F1."""
    score = scale.score(model, exam)
    return replace(score, metric="accuracy") if exam == "MRPC" else score


def higher(sentence: str, above: str, below: str, columns: Sequence[str]) -> Claim:
    """One row is above another in each of these columns."""
    return Claim(sentence=sentence, pairs=gaps(above, below, columns))


def gaps(above: str, below: str, columns: Sequence[str]) -> tuple[tuple[Place, Place], ...]:
    """Two rows' cells of each of these columns."""
    return tuple(pair(above, below, name) for name in columns)


def above_paper(sentence: str, ours: Place, theirs: Place) -> Claim:
    """A row of ours is above what the paper tells of another system."""
    return Claim(sentence=sentence, pairs=((ours, theirs),), kind="above_paper")


def pair(first: str, second: str, column: str) -> tuple[Place, Place]:
    """Two rows' cells of one column."""
    return Place(row=first, column=column), Place(row=second, column=column)


def only_the_paper(title: str, figures: Mapping[str, Figures], columns: Sequence[str]) -> Row:
    """A row that nothing here stands for."""
    return Row(title=title, cells=(None,) * len(columns), paper=figures[title])


def large(scale: Scale, *, cased: bool = False) -> Pretrained:
    """What stands in place of LARGE, trained like BASE."""
    return replace(scale.sized(scale.large), cased=cased and scale.cased_entities)


def seven(score: Score) -> Score:
    """Of the paper's number of seeds for an ensemble."""
    return replace(score, restarts=ENSEMBLE_SIZE)


def as_one(score: Score) -> Score:
    """The same runs as an ensemble."""
    return replace(score, taken="ensemble")
