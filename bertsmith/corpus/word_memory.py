"""Texts -> token ids, faster than the tokenizer by remembering the words it met.

White space and ASCII punctuation end a word, whatever the tokenizer's choices, so the ids of a text
are those of its words, one after the other. Most words were met before: they are looked up, and
only new ones go through the tokenizer. Memory is bounded. The answer never depends on what is
remembered.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from bertsmith.batch import starts_of
from bertsmith.text.tokenizer import Tokenizer

UInt32Array = npt.NDArray[np.uint32]
Int64Array = npt.NDArray[np.int64]

MOST_WORDS = 1 << 18
_LONGEST_REMEMBERED = 24  # characters; where words are not spaced, a word here is a whole sentence
_PUNCTUATION = string.punctuation + "“”‘’–—…"
_COMMA = ","  # no other character's decomposition holds it
_WORDS_A_TEXT = 64
_END = "\n"  # of a text, among the words
_END_ID = 0xFFFF_FFFF
_ALWAYS_KNOWN = {_END: np.uint32(_END_ID).tobytes(), "": b""}
# Capital sigma is the one letter whose lower case depends on what follows behind punctuation.
_SIGMA = "Σ"


class WordMemory:
    """A tokenizer and the words it met; takes up to about 60 MB."""

    def __init__(self, tokenizer: Tokenizer, most_words: int = MOST_WORDS) -> None:
        self._tokenizer = tokenizer
        self._most_words = most_words
        self._known = dict(_ALWAYS_KNOWN)
        self._older: dict[str, bytes] = {}

    def ids(self, texts: Sequence[str]) -> tuple[UInt32Array, Int64Array]:
        """All texts' ids end to end (T,), and how many each has: equal to `Tokenizer.ids`."""
        config = self._tokenizer.config
        if config.reads_special_tokens or config.added_tokens:  # these may hold punctuation
            return self._tokenizer.ids(texts)
        aside = [number for number, text in enumerate(texts) if _SIGMA in text]
        if not aside:
            return self._looked_up(texts)
        others = list(texts)
        for number in aside:
            others[number] = ""
        flat, counts = self._looked_up(others)
        flat_aside, counts_aside = self._tokenizer.ids([texts[number] for number in aside])
        places = np.repeat(starts_of(counts)[aside], counts_aside)
        counts[aside] = counts_aside
        return np.insert(flat, places, flat_aside), counts

    def _looked_up(self, texts: Sequence[str]) -> tuple[UInt32Array, Int64Array]:
        words = self._words(texts)
        distinct = set(words)
        new = self._make_known(distinct)
        marked = np.frombuffer(b"".join(map(self._known.__getitem__, words)), dtype=np.uint32)
        for word in new:
            if len(word) > _LONGEST_REMEMBERED:
                del self._known[word]
        is_end = marked == _END_ID
        ends = np.flatnonzero(is_end) - np.arange(len(texts))
        return marked[~is_end], np.diff(ends, prepend=0)

    def _make_known(self, distinct: set[str]) -> set[str]:
        """Puts all these words into the memory; returns those that nobody had met."""
        new = distinct - self._known.keys()
        if len(self._known) + len(new) > self._most_words // 2:
            # Words that keep coming back are taken over from the older half, the others forgotten.
            self._known, self._older = dict(_ALWAYS_KNOWN), self._known
            new = distinct - self._known.keys()
        again = new & self._older.keys()
        self._known.update(zip(again, map(self._older.__getitem__, again), strict=True))
        new -= again
        self._known.update(self._encoded(list(new)))
        return new

    def _words(self, texts: Sequence[str]) -> list[str]:
        """The words of all texts, an `_END` behind each text's last."""
        joined = f" {_END} ".join(text.replace(_END, " ") for text in [*texts, ""])
        if self._tokenizer.config.unicode_form != "none":
            joined = unicodedata.normalize(self._tokenizer.config.unicode_form, joined)
        for character in _PUNCTUATION:
            joined = joined.replace(character, f" {character} ")
        return joined.split(" ")

    def _encoded(self, words: list[str]) -> dict[str, bytes]:
        """Each word's ids as bytes."""
        # Many words a text, commas between them: a text a word costs several times as much.
        comma = self._tokenizer.id_of(_COMMA)
        if comma is None or comma == self._tokenizer.unk_id:
            return self._encoded_singly(words)
        apart = {word for word in words if len(word) == 1 or _COMMA in word}
        plain = [word for word in words if word not in apart]
        texts = [
            f" {_COMMA} ".join([*plain[start : start + _WORDS_A_TEXT], ""])
            for start in range(0, len(plain), _WORDS_A_TEXT)
        ]
        flat, _ = self._tokenizer.ids(texts)
        is_comma = flat == comma
        counts = np.diff(np.flatnonzero(is_comma) - np.arange(len(plain)), prepend=0)
        return _by_word(plain, flat[~is_comma], counts) | self._encoded_singly(list(apart))

    def _encoded_singly(self, words: list[str]) -> dict[str, bytes]:
        return _by_word(words, *self._tokenizer.ids(words))


def _by_word(words: list[str], flat: UInt32Array, counts: Int64Array) -> dict[str, bytes]:
    content = memoryview(flat.astype(np.uint32, copy=False).tobytes())
    ends = 4 * np.cumsum(counts)
    edges = zip(words, (ends - 4 * counts).tolist(), ends.tolist(), strict=True)
    return {word: bytes(content[start:end]) for word, start, end in edges}
