"""Counts of characters -> the common Hangul that a Korean text happens to lack.

An encyclopaedia of a few megabytes has never 잤 in it, nor ㅠ, and a word that holds an unknown one
is lost as a whole. The 2,350 syllables and 51 letters of KS X 1001 are those that written Korean
needs; Python's `euc_kr` codec names them. It knows no words and no rows.

Source: KS X 1001:1992; our own order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

_FIRST, _LAST = 0xAC00, 0xD7A3
_LETTERS = range(0x3131, 0x3164)
_VOWELS, _ENDINGS = 21, 28
# Below this share of Hangul among its characters a text is not Korean.
_FAIR_SHARE = 0.1


def lacking_hangul(characters: Counter[str], known: Collection[str]) -> list[str]:
    """The common Hangul not known, likeliest first; none where the text is hardly Korean.

    Letters that stand alone, those of laughter and tears, come before all syllables. How likely a
    syllable is follows from how often the text has its three letters, each in its place. Ties by
    code point.
    """
    in_text = {one: times for one, times in characters.items() if _FIRST <= ord(one) <= _LAST}
    if sum(in_text.values()) < _FAIR_SHARE * characters.total():
        return []
    letters: Counter[tuple[int, int]] = Counter()
    for one, times in in_text.items():
        for letter in enumerate(_letters(one)):
            letters[letter] += times

    def likelihood(syllable: str) -> int:
        initial, vowel, ending = enumerate(_letters(syllable))
        # One more of each, so that a single letter that a short text lacks does not decide.
        return (letters[initial] + 1) * (letters[vowel] + 1) * (letters[ending] + 1)

    alone = set(map(chr, _LETTERS)).difference(known)
    lacking = _common_syllables().difference(known)
    return sorted(alone) + sorted(lacking, key=lambda one: (-likelihood(one), one))


def _common_syllables() -> set[str]:
    """Those of KS X 1001: the codec writes them in two bytes, and spells others out in eight."""
    every = map(chr, range(_FIRST, _LAST + 1))
    return {syllable for syllable in every if len(syllable.encode("euc_kr")) == 2}


def _letters(syllable: str) -> tuple[int, int, int]:
    """Its initial, vowel and ending, as numbers."""
    rest, ending = divmod(ord(syllable) - _FIRST, _ENDINGS)
    return (*divmod(rest, _VOWELS), ending)
