"""Tags of sentences -> whether they are BIO throughout, in one dialect and one scheme.

What counts as an entity stands in `tasks.entities`, which reads any dialect as conlleval does; this
file finds tags that were hardly meant so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from bertsmith.reading.conll import TaggedSentence
from bertsmith.reading.counted import counted
from bertsmith.tasks.entities import OUTSIDE, entities, split_tag

_INSIDE = "I"
_FIRST = "B"
_OTHERS = {"S", "E", "U", "L"}
_CLOSED = re.compile("[SU]|BI*[EL]")
"""The prefixes of an entity in BIOES or BILOU."""


def require_bio(sentences: Sequence[TaggedSentence]) -> None:
    """Raises ValueError, with the place, for a tag that is no BIO where O and others are.

    Tags of which none is BIO are of another kind, such as parts of speech.
    """
    faults = no_bio(sentences)
    if faults:
        first = next(iter(faults.values()))
        raise ValueError(
            f"{first}; such tags stand in {counted(len(faults), 'sentence')}, and the "
            f"others are BIO: mend them, or leave such sentences out with --skip-malformed"
        )


def no_bio(sentences: Sequence[TaggedSentence]) -> dict[str, str]:
    """Of each sentence that `require_bio` refuses, by its place: the first fault."""
    tags = dict.fromkeys(tag for sentence in sentences for tag in sentence.tags or ())
    wrong = {tag: fault for tag in tags if (fault := _fault(tag))}
    has_entities = any(tag not in wrong and tag != OUTSIDE for tag in tags)
    if not wrong or not has_entities or OUTSIDE not in tags:
        return {}
    found: dict[str, str] = {}
    for sentence in sentences:
        for number, tag in enumerate(sentence.tags or ()):
            if tag in wrong:
                fault = f"word {number + 1} ({sentence.words[number]!r:.40}): {wrong[tag]}"
                found.setdefault(sentence.place, f"{sentence.place_of(number)}: {fault}")
    return found


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


def two_schemes(sentences: Sequence[TaggedSentence]) -> str:
    """A line where S-, E-, L- or U- stand beside entities that no such tag ends; else empty.

    In BIOES every entity of one word is S-, and E- ends every other; in BILOU these are U- and L-.
    A file that is one of them throughout is read as such.
    """
    marked: list[str] = []
    marks: set[str] = set()
    plain: list[str] = []
    for sentence in sentences:
        tags = sentence.tags or ()
        if any(map(_fault, set(tags))):
            return ""
        for start, end, _ in entities(tags):
            prefixes = "".join(split_tag(tag)[0] for tag in tags[start:end])
            found = set(prefixes) & _OTHERS
            marks |= found
            if found:
                at = next(start + k for k, each in enumerate(prefixes) if each in _OTHERS)
                marked.append(f"{tags[at]!r} in {sentence.place_of(at)}")
            if not _CLOSED.fullmatch(prefixes):
                plain.append(sentence.place_of(start))
    is_of_one = marks <= {"S", "E"} or marks <= {"U", "L"}
    if not marked or (is_of_one and not plain):
        return ""
    beside = (
        f"{counted(len(plain), 'entity is', 'entities are')} not so closed, the first in {plain[0]}"
        if plain
        else "BIOES stands beside BILOU"
    )
    return (
        f"{counted(len(marked), 'entity has', 'entities have')} tags of BIOES or BILOU (S-, E-, "
        f"U-, L-), the first {marked[0]}, and {beside}: S- and U- are counted as an entity of one "
        f"word, E- and L- as the last word of one, and what follows them begins another"
    )


def _neighbours(
    sentences: Sequence[TaggedSentence],
) -> Iterator[tuple[str, tuple[str, str], tuple[str, str]]]:
    """Each tag with its place and the one before it, of the sentences that are BIO."""
    parts: dict[str, tuple[str, str]] = {}
    for sentence in sentences:
        before = (OUTSIDE, "")
        for number, tag in enumerate(sentence.tags or ()):
            if tag not in parts:
                if _fault(tag):
                    return
                parts[tag] = split_tag(tag)
            yield sentence.place_of(number), before, parts[tag]
            before = parts[tag]


def _fault(tag: str) -> str:
    try:
        split_tag(tag)
    except ValueError as error:
        return str(error)
    return ""
