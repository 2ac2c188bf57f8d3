"""The tags of a labelled set -> the labels of a head; predicted tags -> scores, or valid tags.

Entities are learned in one dialect, B- on every first word, whatever the file uses; tags that are
no BIO (parts of speech and the like) stay as they are. A head may put I- behind O: scores take such
tags as they are, as conlleval does, and `well_formed` mends them for a reader. It reads no text.

Source: Tjong Kim Sang and De Meulder 2003.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks.entities import (
    OUTSIDE,
    EntityCounts,
    EntityScore,
    as_iob2,
    entities,
    split_tag,
)
from bertsmith.tasks.metrics import Scorer


@dataclass(frozen=True)
class TagScheme:
    """The labels of a task, in the order of the head's scores."""

    labels: tuple[str, ...]
    is_of_entities: bool
    """Whether they are BIO tags, scored by entity; else parts of speech and the like, by word."""
    is_by_character: bool = False
    """Whether a word is one character, so that blanks are words too, and nothing stands between."""

    @classmethod
    def of(cls, sentences: Sequence[TaggedSentence]) -> TagScheme:
        """The labels of these sentences; those of entities in the one dialect B-, I-, O.

        Raises ValueError, with the place, for a sentence without tags.
        """
        tags = {tag for sentence in sentences for tag in _tags_of(sentence)}
        by_character = is_in_characters(sentences) and any(
            word.isspace() for sentence in sentences for word in sentence.words
        )
        if not all(_is_tag(tag) for tag in tags):
            return cls(tuple(sorted(tags)), is_of_entities=False, is_by_character=by_character)
        kinds = sorted({split_tag(tag)[1] for tag in tags} - {""})
        labels = (OUTSIDE, *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI"))
        return cls(labels, is_of_entities=True, is_by_character=by_character)

    def tags_of(self, sentence: TaggedSentence) -> Sequence[str]:
        """A sentence's tags in the labels' dialect.

        Raises ValueError, with the place, for a tag that is none of the labels.
        """
        tags: Sequence[str] = _tags_of(sentence)
        if self.is_of_entities:
            try:
                tags = as_iob2(tags)
            except ValueError as error:
                raise ValueError(f"{sentence.place}: {error}") from error
        known = set(self.labels)
        for number, tag in enumerate(tags):
            if tag not in known:
                raise ValueError(
                    f"{sentence.place_of(number)}: word {number + 1} ({sentence.words[number]!r}) "
                    f"has the tag {_tags_of(sentence)[number]!r}, none of the {len(self.labels)} "
                    f"that were learned: {', '.join(self.labels):.200}. What is scored must stand "
                    f"in the training file too: mend the tag, or learn it"
                )
        return tags

    def continued(self, tag: str) -> str:
        """What stands behind a word of this tag when it is one with it."""
        kind = split_tag(tag)[1] if self.is_of_entities else ""
        return f"I-{kind}" if kind else tag

    def well_formed(self, tags: Sequence[str]) -> list[str]:
        """The entities that conlleval counts in a sentence's tags, as the labels' dialect has them.

        What no tag opened is opened: B- on the first word, where B- is a label; E- or L- on the
        last and S- or U- on the only one, where these are. Other tags stay as they are.
        """
        if not self.is_of_entities:
            return list(tags)
        written = [OUTSIDE] * len(tags)
        for start, end, kind in entities(tags):
            written[start:end] = [f"I-{kind}"] * (end - start)
            written[end - 1] = self._first_label("EL", kind)
            written[start] = self._first_label("B" if end - start > 1 else "SUBEL", kind)
        return written

    def _first_label(self, prefixes: str, kind: str) -> str:
        """The kind's tag with the first of the prefixes that is a label; else with I-."""
        tags = (f"{prefix}-{kind}" for prefix in prefixes)
        return next((tag for tag in tags if tag in self.labels), f"I-{kind}")


def scorer(
    sentences: Sequence[TaggedSentence], tags: Sequence[Sequence[str]], scheme: TagScheme
) -> Scorer:
    """Gives `f1`, `precision` and `recall` of entities, `f1` of each kind; else `accuracy`."""
    gold = [scheme.tags_of(sentence) for sentence in sentences]
    if scheme.is_of_entities:
        counts = EntityCounts.of(tags, gold)
        return lambda numbers: _named(counts.scores(numbers))
    pairs = [list(zip(ours, theirs, strict=True)) for ours, theirs in zip(tags, gold, strict=True)]
    num_right = np.array([sum(ours == theirs for ours, theirs in each) for each in pairs])
    num_words = np.array([len(each) for each in pairs])
    return lambda numbers: {
        "accuracy": float(num_right[numbers].sum() / max(1, num_words[numbers].sum()))
    }


def _named(scores: dict[str, EntityScore]) -> dict[str, float]:
    """The figures of all entities, then the F1 of each kind."""
    whole = scores.pop("")
    return {
        "f1": whole.f1,
        "precision": whole.precision,
        "recall": whole.recall,
        **{f"f1 {kind}": each.f1 for kind, each in scores.items()},
    }


def _tags_of(sentence: TaggedSentence) -> tuple[str, ...]:
    if sentence.tags is None:
        raise ValueError(f"{sentence.place}: no tags, expected a column of them beside the words")
    return sentence.tags


def is_in_characters(sentences: Sequence[TaggedSentence]) -> bool:
    """Whether every word is one character."""
    return all(len(word) == 1 for sentence in sentences for word in sentence.words)


def _is_tag(tag: str) -> bool:
    try:
        split_tag(tag)
    except ValueError:
        return False
    return True
