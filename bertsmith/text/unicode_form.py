"""A text -> the same text in a Unicode form, and where each of its characters came from.

It does not know tokens. Source: Unicode Standard Annex 15.
"""

from __future__ import annotations

import unicodedata
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt


class Origin(NamedTuple):
    """For each character of the new text, the range of the old text's characters it stands for."""

    starts: npt.NDArray[np.int32]
    ends: npt.NDArray[np.int32]


def in_form(text: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> tuple[str, Origin | None]:
    """The text in the form, and the origin of its characters, or None where nothing changed."""
    if unicodedata.is_normalized(form, text):
        return text, None
    pieces: list[str] = []
    starts: list[int] = []
    ends: list[int] = []
    for start, end in _clusters(text, form):
        piece = unicodedata.normalize(form, text[start:end])
        pieces.append(piece)
        starts += [start] * len(piece)
        ends += [end] * len(piece)
    return "".join(pieces), Origin(np.array(starts, np.int32), np.array(ends, np.int32))


def _clusters(text: str, form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> list[tuple[int, int]]:
    """Ranges that can be brought into the form one by one.

    A new one begins at a character that neither moves before its predecessors nor joins them.
    """
    borders = [0]
    for place in range(1, len(text)):
        before, character = text[borders[-1] : place], text[place]
        if unicodedata.combining(unicodedata.normalize("NFKD", character)[0]):
            continue
        apart = unicodedata.normalize(form, before) + unicodedata.normalize(form, character)
        if unicodedata.normalize(form, before + character) == apart:
            borders.append(place)
    return list(zip(borders, [*borders[1:], len(text)], strict=True))
