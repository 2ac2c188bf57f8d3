"""Tags of sentences -> whether they are BIO throughout, and in one dialect.

What counts as an entity stands in `tasks.entities`, which reads any dialect as conlleval does; this
file finds tags that were hardly meant so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bertsmith.reading.conll import TaggedSentence
from bertsmith.tasks.entities import OUTSIDE, split_tag

_INSIDE = "I"
_FIRST = "B"


def require_bio(sentences: Sequence[TaggedSentence]) -> None:
    """Raises ValueError, with the place, for a tag that is no BIO where O and others are.

    Tags of which none is BIO are of another kind, such as parts of speech.
    """
    tags = dict.fromkeys(tag for sentence in sentences for tag in sentence.tags or ())
    wrong = {tag: fault for tag in tags if (fault := _fault(tag))}
    has_entities = any(tag not in wrong and tag != OUTSIDE for tag in tags)
    if not wrong or not has_entities or OUTSIDE not in tags:
        return
    num_wrong = sum(tag in wrong for sentence in sentences for tag in sentence.tags or ())
    for sentence in sentences:
        for number, tag in enumerate(sentence.tags or ()):
            if tag in wrong:
                raise ValueError(
                    f"{sentence.place}: word {number + 1} ({sentence.words[number]!r:.40}): "
                    f"{wrong[tag]}; so are {num_wrong:,} tags in all, and the others are BIO"
                )


def two_dialects(sentences: Sequence[TaggedSentence]) -> str:
    """A line where some entities begin with B- and some, needlessly, with I-; else empty.

    In IOB1 B- stands only behind an entity of the same kind; in IOB2 I- never begins one.
    """
    begun_inside: list[str] = []
    num_first = 0
    for place, before, tag in _neighbours(sentences):
        (prefix, kind), (_, kind_before) = tag, before
        if not kind or kind == kind_before:
            continue
        num_first += prefix == _FIRST
        if prefix == _INSIDE:
            begun_inside.append(place)
    if not begun_inside or not num_first:
        return ""
    return (
        f"{len(begun_inside):,} entities begin with I-, the first in {begun_inside[0]}, and "
        f"{num_first:,} with B-: all are counted as entities, as conlleval does"
    )


def _neighbours(
    sentences: Sequence[TaggedSentence],
) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Each tag with its place and the one before it, of the sentences that are BIO."""
    parts: dict[str, tuple[str, str]] = {}
    for sentence in sentences:
        before = (OUTSIDE, "")
        for tag in sentence.tags or ():
            if tag not in parts:
                if _fault(tag):
                    return
                parts[tag] = split_tag(tag)
            yield sentence.place, before, parts[tag]
            before = parts[tag]


def _fault(tag: str) -> str:
    try:
        split_tag(tag)
    except ValueError as error:
        return str(error)
    return ""
