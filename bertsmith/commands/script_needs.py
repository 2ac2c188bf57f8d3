"""A sample of the text -> what its script asks of a vocabulary: rows, and whole Hangul.

Scripts of thousands of characters get a least number of rows, however little text there is. Kana
and ideographs get 8,000: the alphabet alone takes half of them. Hangul gets 12,000: all its common
syllables, whether the text has them or not, take a fifth. And Hangul that is decomposed is
composed, and accents are kept in Korean text, where nobody said otherwise: a vocabulary of jamo
knows no syllable, and dropping accents breaks every syllable into jamo.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console

from bertsmith.commands.text_options import VocabularyChoices
from bertsmith.runs.progress import say
from bertsmith.text.hangul import has_decomposed_hangul, has_hangul, has_whole_hangul
from bertsmith.text.scripts import is_common

_LEAST_OF_LARGE_SCRIPT = 8_000
_LEAST_OF_HANGUL = 12_000
_LARGE_SCRIPT = re.compile("[\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
"""Kana, ideographs."""


def keeping_hangul(
    how: VocabularyChoices, sentences: Sequence[str], console: Console
) -> VocabularyChoices:
    """The choices, those of form and accents made for Korean text where none was, and said so."""
    how = _composing(how, sentences, console)
    form = how.unicode_form
    if form != "auto" and form != "none":
        sentences = [unicodedata.normalize(form, sentence) for sentence in sentences]
    # Where a person chose to leave it in jamo, there is nothing to keep whole.
    if how.strip_accents is not None or how.cased or not is_common(has_whole_hangul, sentences):
        return how
    say(
        console,
        "the text holds Korean: accents are kept, so that Hangul stays whole (--strip-accents True "
        "drops them)",
    )
    return replace(how, strip_accents=False)


def least_rows(sentences: Sequence[str]) -> int:
    """Rows that a script of thousands of characters needs, however little text there is."""
    if is_common(has_hangul, sentences):
        return _LEAST_OF_HANGUL
    return _LEAST_OF_LARGE_SCRIPT if is_common(_has_large_script, sentences) else 0


def _composing(
    how: VocabularyChoices, sentences: Sequence[str], console: Console
) -> VocabularyChoices:
    """The choices with a form: NFC where none was chosen and Hangul is decomposed, and said so."""
    if how.unicode_form != "auto":
        return how
    if not is_common(has_decomposed_hangul, sentences):
        return replace(how, unicode_form="none")
    say(
        console,
        "the text's Hangul is decomposed, as macOS writes it: it is brought into the Unicode form "
        "NFC, in which syllables are whole (--unicode-form none leaves it in jamo)",
    )
    return replace(how, unicode_form="NFC")


def _has_large_script(sentence: str) -> bool:
    return _LARGE_SCRIPT.search(sentence) is not None
