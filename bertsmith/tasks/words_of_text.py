"""A text -> its words, as data sets for tagging have them: punctuation stands alone.

Where a labelled set has its own idea of words, hand in lists of words instead. No language's rules
are known here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from bertsmith.text.rules import is_ideograph

_RUN = re.compile(r"\S+")
_PARTING = frozenset(',;!?()[]{}"“”„«»<>…')
"""Marks that end a word even between letters; other marks are part of it there (U.S, don't)."""
_MARKS = ("P", "S")

Span = tuple[int, int]


def word_spans(text: str, *, by_character: bool = False) -> list[Span]:
    """The characters of every word, half-open.

    With `by_character` every character is a word, blanks too, as in character-tagged Korean.
    """
    if by_character:
        return [(number, number + 1) for number in range(len(text))]
    return [
        span for run in _RUN.finditer(text) for span in _words_of_run(text, run.start(), run.end())
    ]


def _words_of_run(text: str, start: int, end: int) -> Iterator[Span]:
    """Words of a run without blanks: marks at its ends and parting marks are words of their own."""
    first, last = start, end
    while first < last and _is_mark(text[first]):
        first += 1
    while last > first and _is_mark(text[last - 1]):
        last -= 1
    yield from ((number, number + 1) for number in range(start, first))
    begun = first
    for number in range(first, last):
        if is_ideograph(text[number]) or _parts(text, number):
            if begun < number:
                yield begun, number
            yield number, number + 1
            begun = number + 1
    if begun < last:
        yield begun, last
    yield from ((number, number + 1) for number in range(last, end))


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] in _MARKS


def _parts(text: str, number: int) -> bool:
    """Whether a mark inside a run ends a word: not the comma of 3,000."""
    if text[number] not in _PARTING:
        return False
    is_in_number = text[number - 1].isdigit() and text[number + 1].isdigit()
    return not (text[number] == "," and is_in_number)
