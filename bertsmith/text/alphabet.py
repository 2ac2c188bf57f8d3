"""Counts of characters -> the alphabet of a vocabulary, and the rows it takes.

A character of which words are made stands in two rows, plain and `##`. An ideograph that the
tokenizer makes a word of its own is never continued, so it stands in one.

Source: our own, since the original learner was never published; two forms as in its vocabularies.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from bertsmith.text.chains import CONTINUATION
from bertsmith.text.rules import TokenizerConfig, is_ideograph

# The automatic alphabet leaves out at most this share of all characters of the text.
_UNCOVERED_SHARE = 1e-5
# It takes at most one row in three, and with syllables one in two.
_MOST_ROWS = 1 / 3
_MOST_ROWS_WITH_SYLLABLES = 1 / 2
# A closed set, with the letters of laughter and tears: one that this text hardly uses is common in
# the next, and a word that holds an unknown one is lost as a whole.
_SYLLABLE = re.compile("[가-힣ㄱ-ㅣ]")


@dataclass(frozen=True, kw_only=True)
class AlphabetConfig:
    """Which characters to keep."""

    min_count: int
    """A character seen less often is left out."""
    limit: int
    """The most characters kept, most frequent first; 0: enough for the text, within the rows."""
    tokenizer: TokenizerConfig
    """Whether ideographs are words of their own."""


def choose_alphabet(characters: Counter[str], config: AlphabetConfig, num_rows: int) -> list[str]:
    """The characters kept of those counted, ascending; `num_rows` is the vocabulary's size.

    The most frequent come first, ties by code point. Raises ValueError when there are none.
    """
    ranked = _ranked(characters)
    frequent = [character for character, times in ranked if times >= config.min_count]
    if not frequent:
        raise ValueError(
            f"no character occurs min_count = {config.min_count} times; give more text or lower it"
        )
    if config.limit:
        return sorted(frequent[: config.limit])
    num_covering = _num_covering([times for _, times in ranked])
    return sorted(_fitting(frequent, num_covering, config.tokenizer, num_rows))


def fill(
    characters: Counter[str], alphabet: list[str], config: AlphabetConfig, num_rows: int
) -> list[str]:
    """The characters left out of the alphabet that fit into `num_rows` more rows, ascending.

    For a vocabulary that has no more pairs to join: in Chinese most words are one ideograph. None
    where the person limited the alphabet.
    """
    filled: list[str] = []
    known = set(alphabet)
    for character, times in [] if config.limit else _ranked(characters):
        needed = 2 if _is_continued(character, config.tokenizer) else 1
        if character not in known and times >= config.min_count and needed <= num_rows:
            filled.append(character)
            num_rows -= needed
    return sorted(filled)


def rows_of(alphabet: list[str], tokenizer: TokenizerConfig) -> list[str]:
    """The rows of an alphabet: the characters as they are, then the `##` forms that can occur."""
    continued = (one for one in alphabet if _is_continued(one, tokenizer))
    return [*alphabet, *(CONTINUATION + character for character in continued)]


def _ranked(characters: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, ties by code point."""
    # Half a character, as broken JSON has it, can stand in no file.
    whole = ((one, times) for one, times in characters.items() if not _is_surrogate(one))
    return sorted(whole, key=lambda item: (-item[1], item[0]))


def _fitting(
    frequent: list[str], num_covering: int, tokenizer: TokenizerConfig, num_rows: int
) -> list[str]:
    """The covering characters within their share of the rows, and all syllables within theirs."""
    kept: list[str] = []
    used = 0
    for place, character in enumerate(frequent):
        is_syllable = _SYLLABLE.match(character) is not None
        if not is_syllable and place >= num_covering:
            continue
        needed = 2 if _is_continued(character, tokenizer) else 1
        share = _MOST_ROWS_WITH_SYLLABLES if is_syllable else _MOST_ROWS
        if used + needed <= share * num_rows:
            kept.append(character)
            used += needed
    return kept


def _is_continued(character: str, tokenizer: TokenizerConfig) -> bool:
    return not (tokenizer.split_cjk and is_ideograph(character))


def _is_surrogate(character: str) -> bool:
    return "\ud800" <= character <= "\udfff"


def _num_covering(times: list[int]) -> int:
    """How many of the most frequent characters leave out at most `_UNCOVERED_SHARE` of the text."""
    counts = np.array(times, dtype=np.int64)
    uncovered = counts.sum() - np.cumsum(counts)
    return int(np.searchsorted(-uncovered, -_UNCOVERED_SHARE * float(counts.sum()))) + 1
