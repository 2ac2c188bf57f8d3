"""A sample of the text -> what its script asks of a vocabulary: rows, and whole Hangul.

Scripts of thousands of characters get a least number of rows, however little text there is. Kana
and ideographs get 8,000: the alphabet alone takes half of them. Hangul gets 12,000: all its common
syllables, whether the text has them or not, take a fifth. And accents are kept in Korean text,
where nobody said otherwise: dropping them breaks every syllable into jamo.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from bertsmith.commands.text_options import VocabularyChoices
from bertsmith.runs.progress import say

_LEAST_OF_LARGE_SCRIPT = 8_000
_LEAST_OF_HANGUL = 12_000
_HANGUL = re.compile("[가-힣]")
_LARGE_SCRIPT = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Kana, ideographs."""
_STRAY_SHARE = 0.02


def keeping_hangul(
    how: VocabularyChoices, sentences: Sequence[str], console: Console
) -> VocabularyChoices:
    """The choices, with accents kept and said so where the text is Korean and none was made."""
    if how.strip_accents is not None or how.cased or not _is_common(_HANGUL, sentences):
        return how
    say(
        console,
        "the text holds Korean: accents are kept, so that Hangul stays whole (--strip-accents True "
        "drops them)",
    )
    return replace(how, strip_accents=False)


def least_rows(sentences: Sequence[str]) -> int:
    """Rows that a script of thousands of characters needs, however little text there is."""
    if _is_common(_HANGUL, sentences):
        return _LEAST_OF_HANGUL
    return _LEAST_OF_LARGE_SCRIPT if _is_common(_LARGE_SCRIPT, sentences) else 0


def _is_common(script: re.Pattern[str], sentences: Sequence[str]) -> bool:
    """True when more than a stray sentence of the sample holds a character of the script."""
    found = sum(script.search(sentence) is not None for sentence in sentences)
    return found > _STRAY_SHARE * len(sentences)
