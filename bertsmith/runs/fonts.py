"""Text of any script -> the fonts of this machine that have its characters, and what none has.

It draws nothing.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator

import matplotlib
from matplotlib import font_manager

PREFERRED = (
    "Noto Sans CJK KR", "Noto Sans KR", "Noto Sans CJK JP", "NanumGothic", "Nanum Gothic",
    "Malgun Gothic", "Apple SD Gothic Neo", "UnDotum", "Baekmuk Gulim",
)  # fmt: skip
"""Looked at first: plain ones that have Hangul."""
_USUAL = "DejaVu Sans"
_SHOWS_NOTHING = "Last Resort"
"""Begins the name of a font that has a box for every character, and no letter."""


@contextlib.contextmanager
def as_written(names: str) -> Iterator[None]:
    """Has names in any script drawn from fonts that have their letters, and a `$` as a dollar.

    `names` are all of them, one after the other. Where no font has a letter, it is a box: what
    stands beside the picture says the name.
    """
    families = [*matplotlib.rcParams["font.family"], *families_for(names)[0]]
    with (
        warnings.catch_warnings(),
        matplotlib.rc_context({"font.family": families, "text.parse_math": False}),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def families_for(text: str) -> tuple[list[str], str]:
    """Families that together draw the text, the usual one first, and characters that none has."""
    needed = {each for each in text if not each.isspace()}
    families: list[str] = []
    for family, path in _fonts():
        found = needed & _characters_of(path)
        if found or not families:
            families.append(family)
            needed -= found
        if not needed:
            break
    return families, "".join(sorted(needed))


def _fonts() -> Iterator[tuple[str, str]]:
    """Every upright family of this machine with its file: the usual one, the preferred, others."""
    known = {
        font.name: font.fname
        for font in font_manager.fontManager.ttflist
        if font.style == "normal" and not font.name.startswith(_SHOWS_NOTHING)
    }
    for name in dict.fromkeys([_USUAL, *PREFERRED, *sorted(known)]):
        if name in known:
            yield name, known[name]


def _characters_of(path: str) -> set[str]:
    """What a font file has; nothing where it cannot be read."""
    try:
        codes: Iterable[int] = font_manager.get_font(path).get_charmap()
    except (OSError, RuntimeError):
        return set()
    return set(map(chr, codes))
