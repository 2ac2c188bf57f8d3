"""Tags of words -> entities, and entities -> precision, recall and F1 as conlleval counts them.

BIO in either dialect (IOB1: B- only between neighbours of one kind; IOB2: B- on every first word)
and IOBES. A tag that no dialect allows still counts, as conlleval counts it: a word after an entity
of another kind begins one.

Source: conlleval (Tjong Kim Sang and Buchholz 2000), the CoNLL-2003 shared task's evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

OUTSIDE = "O"
_SINGLE = {"S", "U"}
_LAST = {"E", "L"} | _SINGLE
_FIRST = {"B"} | _SINGLE
PREFIXES = {"I"} | _FIRST | _LAST
"""What stands before the kind, as in `B-PER`."""


class Entity(NamedTuple):
    """A run of words that is one name."""

    start: int
    """Its first word."""
    end: int
    """The word behind its last."""
    kind: str
    """`PER`, `LOC`, ..."""


@dataclass(frozen=True, kw_only=True)
class EntityScore:
    """How many entities were found, and found rightly: same words, same kind."""

    num_gold: int
    num_predicted: int
    num_right: int

    @property
    def precision(self) -> float:
        """The share of the predicted entities that are right; 0 without any."""
        return self.num_right / self.num_predicted if self.num_predicted else 0.0

    @property
    def recall(self) -> float:
        """The share of the gold entities that were found; 0 without any."""
        return self.num_right / self.num_gold if self.num_gold else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of the two."""
        found = self.num_predicted + self.num_gold
        return 2 * self.num_right / found if found else 0.0


def split_tag(tag: str) -> tuple[str, str]:
    """`B-PER` -> (`B`, `PER`), `O` -> (`O`, ``). Raises ValueError for what is no tag."""
    if tag == OUTSIDE:
        return OUTSIDE, ""
    prefix, dash, kind = tag.partition("-")
    if prefix not in PREFIXES or not dash or not kind:
        raise ValueError(f"{tag!r} is no tag: expected O, or B-, I- (E-, S-) and a kind, as B-PER")
    return prefix, kind


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of one sentence, or of one document."""
    found: list[Entity] = []
    start, before, before_kind = -1, OUTSIDE, ""
    for place, tag in enumerate([*tags, OUTSIDE]):
        prefix, kind = split_tag(tag)
        is_border = prefix in _FIRST or before in _LAST or kind != before_kind
        if start >= 0 and (prefix == OUTSIDE or is_border):
            found.append(Entity(start, place, before_kind))
            start = -1
        if start < 0 and prefix != OUTSIDE:
            start = place
        before, before_kind = prefix, kind
    return found


@dataclass(frozen=True, kw_only=True)
class EntityCounts:
    """What the entities of sentences come to, sentence by sentence: sums of them are scores."""

    kinds: tuple[str, ...]
    """Of all sentences, sorted."""
    counts: npt.NDArray[np.int64]
    """(sentences, kinds, 3): gold entities, predicted ones, those that are right."""

    @classmethod
    def of(cls, predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]) -> EntityCounts:
        """Both hold the tags of the same sentences.

        Raises ValueError where two differ in length.
        """
        sides: list[tuple[set[Entity], set[Entity]]] = []
        for number, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
            if len(ours) != len(theirs):
                raise ValueError(
                    f"sentence {number}: {len(ours)} predicted tags for {len(theirs)} words"
                )
            sides.append((set(entities(theirs)), set(entities(ours))))
        kinds = sorted({each.kind for wanted, found in sides for each in wanted | found})
        numbers = {kind: number for number, kind in enumerate(kinds)}
        counts = np.zeros((len(sides), len(kinds), 3), np.int64)
        for of_sentence, (wanted, found) in zip(counts, sides, strict=True):
            for column, some in enumerate((wanted, found, wanted & found)):
                for each in some:
                    of_sentence[numbers[each.kind], column] += 1
        return cls(kinds=tuple(kinds), counts=counts)

    def scores(self, numbers: npt.NDArray[np.int64]) -> dict[str, EntityScore]:
        """The score of every kind that stands in the sentences of these numbers, and of all.

        By name, that of all under `""`: sums, not means.
        """
        times = np.bincount(numbers, minlength=len(self.counts))
        sums = np.tensordot(times, self.counts, axes=1)  # (kinds, 3)
        scores = {
            kind: _score(of_kind)
            for kind, of_kind in zip(self.kinds, sums, strict=True)
            if of_kind.any()
        }
        scores[""] = _score(sums.sum(axis=0))
        return scores


def entity_scores(
    predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]
) -> dict[str, EntityScore]:
    """The scores of all sentences, as `EntityCounts` has them; raises as it does."""
    counted = EntityCounts.of(predicted, gold)
    return counted.scores(np.arange(len(counted.counts)))


def _score(sums: npt.NDArray[np.int64]) -> EntityScore:
    num_gold, num_predicted, num_right = map(int, sums)
    return EntityScore(num_gold=num_gold, num_predicted=num_predicted, num_right=num_right)


def as_iob2(tags: Sequence[str]) -> list[str]:
    """The same entities with B- on every first word and I- on the others."""
    written = [OUTSIDE] * len(tags)
    for start, end, kind in entities(tags):
        written[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return written
