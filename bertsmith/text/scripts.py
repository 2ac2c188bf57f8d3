"""Words -> the script that they are written in.

Python has no table of scripts; a letter's Unicode name begins with its own.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache

_WRITTEN_TOGETHER = {"CJK": "Chinese or Japanese", "HIRAGANA": "Chinese or Japanese",
                     "KATAKANA": "Chinese or Japanese"}  # fmt: skip


STRAY_SHARE = 0.02
"""Of texts: those with a script, or another trait, that all of them have not."""


@cache
def script_of(character: str) -> str | None:
    """`Latin`, `Hangul`, ...; None for what is no letter. Ideographs and kana are one script."""
    if not character.isalpha():
        return None
    name = unicodedata.name(character, "unnamed").split()[0].partition("-")[0]
    return _WRITTEN_TOGETHER.get(name, name.capitalize())


def main_script(words: Iterable[str]) -> str | None:
    """The script of most letters; None where there are none."""
    scripts = Counter(script_of(character) for word in words for character in word)
    del scripts[None]
    return max(scripts, key=lambda script: (scripts[script], script or ""), default=None)


def share_in_script(words: Iterable[str], script: str) -> float:
    """The share of the words with letters that have one of the script."""
    found = [{script_of(character) for character in word} - {None} for word in words]
    lettered = [scripts for scripts in found if scripts]
    return sum(script in scripts for scripts in lettered) / max(1, len(lettered))


def is_common(is_found: Callable[[str], bool], texts: Sequence[str]) -> bool:
    """True when it is found in more than a stray one of the texts."""
    return sum(map(is_found, texts)) > STRAY_SHARE * len(texts)
