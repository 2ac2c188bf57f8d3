"""Tags of words -> entities, and entities -> precision, recall and F1 as conlleval counts them.

BIO in either dialect (IOB1: B- only between neighbours of one kind; IOB2: B- on every first word)
and IOBES. A tag that no dialect allows still counts, as conlleval counts it: a word after an entity
of another kind begins one.

Source: conlleval (Tjong Kim Sang and Buchholz 2000), the CoNLL-2003 shared task's evaluation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

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


def entity_scores(
    predicted: Iterable[Sequence[str]], gold: Iterable[Sequence[str]]
) -> dict[str, EntityScore]:
    """The score of every kind, by name, and under `""` that of all: sums, not means.

    Both hold the tags of the same sentences. Raises ValueError where two differ in length.
    """
    in_gold: Counter[str] = Counter()
    in_predicted: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for number, (ours, theirs) in enumerate(zip(predicted, gold, strict=True)):
        if len(ours) != len(theirs):
            raise ValueError(
                f"sentence {number}: {len(ours)} predicted tags for {len(theirs)} words"
            )
        found, wanted = set(entities(ours)), set(entities(theirs))
        in_predicted.update(entity.kind for entity in found)
        in_gold.update(entity.kind for entity in wanted)
        right.update(entity.kind for entity in found & wanted)
    scores = {
        kind: EntityScore(
            num_gold=in_gold[kind], num_predicted=in_predicted[kind], num_right=right[kind]
        )
        for kind in sorted(in_gold | in_predicted)
    }
    scores[""] = EntityScore(
        num_gold=in_gold.total(), num_predicted=in_predicted.total(), num_right=right.total()
    )
    return scores


def as_iob2(tags: Sequence[str]) -> list[str]:
    """The same entities with B- on every first word and I- on the others."""
    written = [OUTSIDE] * len(tags)
    for start, end, kind in entities(tags):
        written[start:end] = [f"B-{kind}", *[f"I-{kind}"] * (end - start - 1)]
    return written
