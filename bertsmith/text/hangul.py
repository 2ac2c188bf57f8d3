"""Texts -> whether their Hangul stands in syllables or in jamo, and what would keep it whole.

To Unicode a syllable is composed of jamo like é of e and an accent. Accent stripping and the forms
NFD and NFKD take it apart; in text that macOS made it may be apart already, and looks the same. It
does not know vocabularies.

Source: the Unicode Standard, 3.12 (conjoining jamo behavior).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from bertsmith.text.rules import TokenizerConfig
from bertsmith.text.scripts import is_common

HOW_TO_COMPOSE = (
    'python -X utf8 -c "import sys, unicodedata; sys.stdout.writelines(unicodedata.normalize('
    "'NFC', line) for line in sys.stdin)\" < TEXT > COMPOSED"
)
"""A command line that composes a text."""

_HANGUL = re.compile("[가-힣\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]")
_SYLLABLE = re.compile("[가-힣]")
# Initial and vowel of today's letters: what NFC joins. Of the old ones there are no syllables.
_DECOMPOSED = re.compile("[\u1100-\u1112][\u1161-\u1175]")


def has_hangul(text: str) -> bool:
    """Whether it holds Hangul, composed or decomposed."""
    return not text.isascii() and _HANGUL.search(text) is not None


def has_whole_hangul(text: str) -> bool:
    """Whether it holds a whole syllable."""
    return not text.isascii() and _SYLLABLE.search(text) is not None


def has_decomposed_hangul(text: str) -> bool:
    """Whether it holds a syllable in jamo, which NFC would make whole."""
    return not text.isascii() and _DECOMPOSED.search(text) is not None


def warn_about_hangul(
    config: TokenizerConfig, sample_texts: Sequence[str], *, is_learning: bool = False
) -> str | None:
    """The warning that Hangul would stand in jamo under these rules, or None where it cannot.

    Of a form that decomposes, or leaves decomposed, it warns only where a vocabulary is yet to be
    learned: one that is there was made for it.
    """
    form = config.unicode_form
    is_decomposed = form == "none" and is_common(has_decomposed_hangul, sample_texts)
    takes_apart = form in ("NFD", "NFKD") and is_learning
    if not (config.strip_accents or takes_apart or (is_decomposed and is_learning)):
        return None
    composed = (unicodedata.normalize("NFC", text) for text in sample_texts)
    found = next(filter(None, map(_SYLLABLE.search, composed)), None)
    if found is None:
        return None
    why = "strip_accents is on and the text holds Hangul: every syllable falls apart into jamo"
    if is_decomposed:
        why = (
            "the text's Hangul is decomposed, as macOS writes it, and unicode_form is none: every "
            "syllable stays apart in jamo"
        )
    elif takes_apart:
        why = why.replace("strip_accents is on", f"unicode_form is {form}")
    jamo = " ".join(unicodedata.normalize("NFD", found[0]))
    options = keeping_whole(config, is_composed=not is_decomposed)
    return (
        f"{why} ({found[0]} becomes {jamo}); a vocabulary learned with {options} keeps them whole"
    )


def keeping_whole(config: TokenizerConfig, *, is_composed: bool = False) -> str:
    """What to choose otherwise, as options, so that Hangul is whole; `is_composed`: it is so now.

    Where that is not known, the form is named: it does no harm.
    """
    form, options = config.unicode_form, []
    if not (form in ("NFC", "NFKC") or (form == "none" and is_composed)):
        options.append("--unicode-form NFC")
    if config.strip_accents:
        options.append("--strip-accents False")
    return " ".join(options)
