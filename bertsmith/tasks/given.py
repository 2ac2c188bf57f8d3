"""What a person hands in -> lists of texts or of pairs, or one error that says what was found.

The one door of every question: behind it a text is a `str` of whole characters. It knows no model.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Set
from numbers import Integral

Pair = tuple[str, str]

_NOT_PRINTED = ("Cc", "Cf", "Zs", "Zl", "Zp")
_REPLACEMENT = "\ufffd"
"""What a decoder left of broken bytes; no tokenizer of BERT keeps it."""


def texts(given: Iterable[str], name: str, kind: str = "text") -> list[str]:
    """A list of what is iterated over. `name` is the call's, as in `embed([text])`.

    Raises TypeError for one text alone, whose letters would be taken for texts, and for what is no
    text; ValueError for half a character.
    """
    expected = f"{name} expects a list of {kind}s"
    if isinstance(given, str):
        raise TypeError(f"{expected}, found one {kind}, {short(given)}: write {name}([{kind}])")
    return [
        text(each, f"{expected}, but number {number}")
        for number, each in enumerate(listed(given, expected), start=1)
    ]


def pairs(given: Iterable[Pair], name: str) -> list[Pair]:
    """A list of pairs of texts, each two of them.

    Raises as `texts` does; TypeError for one pair alone, ValueError for a pair that is not two.
    """
    expected = f"{name} expects a list of pairs of texts"
    advice = f"write {name}([(first, second)])"
    alone: object = given
    if isinstance(alone, str):
        raise TypeError(f"{expected}, found one text, {short(alone)}: {advice}")
    found = listed(given, expected)
    if found and all(isinstance(each, str) for each in found):
        raise TypeError(f"{expected}, found {len(found):,} texts and no pair: {advice}")
    return [
        _pair(each, f"{expected}, but number {number}")
        for number, each in enumerate(found, start=1)
    ]


def text(given: object, place: str) -> str:
    """One text. Raises TypeError for what is none, ValueError for half a character."""
    if not isinstance(given, str):
        raise TypeError(f"{place} is no text (str): found {type(given).__name__} {given!r:.40}")
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{place} holds half a character (\\u{ord(given[error.start]):04x}) at position "
            f"{error.start}: it was cut, or decoded with surrogates"
        ) from error
    return given


def listed(given: object, expected: str) -> list[object]:
    """What is iterated over, in the order in which answers are given, which a set has not.

    Raises TypeError, which begins with what was `expected`.
    """
    if not isinstance(given, Iterable) or isinstance(given, Mapping | Set | bytes):
        raise TypeError(f"{expected}, found {type(given).__name__} {given!r:.40}")
    return list(given)


def count(given: object, name: str) -> int:
    """How many of something. Raises TypeError for what is no whole number, ValueError below 1."""
    if not isinstance(given, Integral):
        raise TypeError(
            f"{name} must be a whole number, found {type(given).__name__} {given!r:.40}"
        )
    if given < 1:
        raise ValueError(f"{name} must be at least 1, found {given}")
    return int(given)


def is_readable(text: str) -> bool:
    """Whether one of its characters is one that a model could read."""
    return any(
        character != _REPLACEMENT and unicodedata.category(character) not in _NOT_PRINTED
        for character in text
    )


def require_token(text: str, num_tokens: int, place: str = "") -> None:
    """Raises ValueError, with the place in front, for a text of which the model would see nothing.

    A text need not be empty for that: blanks and characters that are not printed give no token.
    """
    if not num_tokens:
        raise ValueError(f"{place}{short(text)} has no token: nothing in it can be read")


def short(text: str) -> str:
    """A text as it is shown in an error."""
    return repr(textwrap.shorten(text, 60, placeholder="…") if len(text) > 60 else text)


def _pair(given: object, place: str) -> Pair:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise TypeError(f"{place} is no pair: found {type(given).__name__} {given!r:.40}")
    sides = list(given)
    if len(sides) != 2:
        raise ValueError(f"{place} holds {len(sides)}, expected two texts: {given!r:.60}")
    first, second = (
        text(each, f"{place}, its {which} side,")
        for each, which in zip(sides, ("first", "second"), strict=True)
    )
    return first, second
