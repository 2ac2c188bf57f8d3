"""What each character of a text becomes, as numbers for `fast_wordpiece.cpp`.

`rules` is asked once for every character, when a text first holds it, and the answer kept. What
`rules` makes of a character only in view of its neighbours is marked, so that the text goes to
`rules` itself. This file knows no vocabulary.

Source: google-research/bert, tokenization.py: BasicTokenizer.
"""

from __future__ import annotations

import sys
import threading
import unicodedata
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from bertsmith.text.rules import TokenizerConfig, exact_words, rare_characters

# Of the source: the lowest bits are the character that stands for this one, the others say more.
ENDS_BEFORE = 1 << 21
"""The word before it ends."""
ENDS_AFTER = 1 << 22
"""Its own word ends with it."""
NOTHING = 1 << 23
"""No character stands for it."""
SEVERAL = 1 << 24
"""Several do: the lowest bits are the place of their number in `several`, they follow it."""
MARK = 1 << 25
"""A stripped accent, which belongs to the span of what stands before it."""
ASIDE = 1 << 26
"""No table can say what becomes of it."""
SIGMA = 1 << 27
"""Its lowest bits hold only where a letter that is `GREEK` follows; elsewhere it is `ASIDE`."""
GREEK = 1 << 28
"""A letter before which a sigma is never final."""

MOST_BECOME = 3
"""Characters that may stand for one: the jamo of a Hangul syllable."""
_BLANK = ENDS_BEFORE | NOTHING
_ALONE = ENDS_BEFORE | ENDS_AFTER
_BESIDE = "a"
_CAPITAL_SIGMA = "Σ"


class Characters:
    """A table of the characters met so far."""

    def __init__(self, config: TokenizerConfig) -> None:
        self._config = config
        # Those that the library takes otherwise than the rules, where it is the library that counts
        self._aside = rare_characters(replace(config, library_rules=False))
        self._places: dict[tuple[int, ...], int] = {}
        self._num_several = 0
        self._lock = threading.Lock()
        self.entries = np.zeros(sys.maxunicode + 1, np.uint32)  # of which memory is what was met
        """What becomes of each character; 0 where nobody asked."""
        self.several = np.zeros(1 << 16, np.uint32)
        """The characters that stand for one, their number before them."""

    def learn(self, codes: npt.NDArray[np.uint32]) -> None:
        """Fills in those of the characters that are not there yet, while others may read."""
        with self._lock:
            for code in codes[self.entries[codes] == 0].tolist():
                self.entries[code] = self._entry(chr(code))

    def _entry(self, character: str) -> int:
        config = self._config
        if config.library_rules and self._aside.match(character):
            return ASIDE
        words = [word.text for word in exact_words(f"{_BESIDE}{character}{_BESIDE}", config)]
        if words == [_BESIDE, _BESIDE]:
            return _BLANK
        if len(words) == 1:
            return self._inside(character, words[0][1:-1])
        if len(words) == 3 and len(words[1]) == 1:
            return _ALONE | ord(words[1])
        return ASIDE

    def _inside(self, character: str, found: str) -> int:
        """Of one that does not end a word."""
        config = self._config
        if not found:
            is_mark = config.strip_accents and unicodedata.category(character) == "Mn"
            return NOTHING | MARK if is_mark else NOTHING
        if config.strip_accents and any(map(unicodedata.combining, found)):
            return ASIDE  # marks beside it may change places with it
        if len(found) > 1:
            return self._several_of(found)
        entry = ord(found)
        if not config.lowercase or config.library_rules:
            return entry
        if character == _CAPITAL_SIGMA:
            return entry | SIGMA
        is_greek = not self._aside.match(_CAPITAL_SIGMA + character)
        return entry | GREEK if is_greek else entry

    def _several_of(self, found: str) -> int:
        codes = tuple(map(ord, found))
        if codes not in self._places:
            if len(codes) > MOST_BECOME or self._num_several + 1 + len(codes) > len(self.several):
                return ASIDE
            start, end = self._num_several, self._num_several + 1 + len(codes)
            self.several[start:end] = (len(codes), *codes)
            self._places[codes], self._num_several = start, end
        return SEVERAL | self._places[codes]
