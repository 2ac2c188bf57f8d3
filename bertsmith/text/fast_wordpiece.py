"""Texts -> their tokens with spans, several times as fast as the `tokenizers` library.

The functions of `fast_wordpiece.cpp` read a table of what each character becomes and a trie of the
vocabulary, and nothing of Python's. What no table can say is left out and named, and so is
everything on a machine without a compiler: `library_wordpiece` takes it.

Legend: T tokens, P texts.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.compiler import library
from bertsmith.libraries import Build
from bertsmith.structures import int64s, pointers
from bertsmith.text.characters import MOST_BECOME, Characters
from bertsmith.text.encoding import Counts, Tokens
from bertsmith.text.rules import TokenizerConfig

Numbers = npt.NDArray[np.int64]

SOURCE = Path(__file__).with_suffix(".cpp")
_BUILD = Build()
_CODEC = f"utf-32-{sys.byteorder[0]}e"  # a character a number, as this machine has numbers
_SLICE = 1 << 15
"""Characters, or little more, that a thread takes at a time."""
_STEP_BYTES = 16
_CHARACTER_BYTES = 4
_NO_ROOM = -2
_MOST = 2**31 - 1
_NO = ("", "off", "false", "f", "no", "n", "0")


class _Trie(ctypes.Structure):
    """`Trie` of the source."""

    _fields_ = (("steps", ctypes.c_void_p), ("bits", ctypes.c_int64))


class _Rules(ctypes.Structure):
    """`Rules` of the source."""

    _fields_ = (
        *pointers("entries", "several"),
        ("trie", _Trie),
        ("unknown", ctypes.c_int32),
        ("longest_word", ctypes.c_int32),
        ("most_become", ctypes.c_int64),
    )


class _Texts(ctypes.Structure):
    """`Texts` of the source."""

    _fields_ = (
        ("characters", ctypes.c_char_p),
        *pointers("lengths"),
        *int64s("num_texts"),
    )


class _Tokens(ctypes.Structure):
    """`Tokens` of the source."""

    _fields_ = (*pointers("ids", "spans", "words", "counts"), *int64s("num_left_out"))


class FastWordPiece:
    """Tables of the rules and of the vocabulary."""

    def __init__(self, row_of: Mapping[str, int], unk_id: int, config: TokenizerConfig) -> None:
        found = library(SOURCE, _BUILD)
        assert found is not None
        self._encode = found["encode"]
        self._encode.restype = ctypes.c_int64
        self._characters = Characters(config)
        self._steps, trie = _planted(found, row_of)
        self._rules = _Rules(
            entries=_address(self._characters.entries),
            several=_address(self._characters.several),
            trie=trie,
            unknown=unk_id,
            longest_word=min(config.word_limit, _MOST),
            most_become=MOST_BECOME,
        )

    def encode(self, texts: Sequence[str], with_spans: bool = True) -> tuple[Tokens, Numbers]:
        """The tokens of all texts but those that are left out, and the numbers of these.

        Of a text that is left out the count is 0. Without spans, spans and words are empty.
        """
        slices = list(_slices(texts))
        if len(slices) == 1:
            tokens, num_left_out = self._encoded(texts, with_spans)
        else:
            with ThreadPoolExecutor(min(_num_threads(), len(slices))) as pool:
                try:
                    begun = [pool.submit(self._encoded, each, with_spans) for each in slices]
                except RuntimeError:  # no thread can: none is left, or the main one has ended
                    begun = []
                    pool.shutdown(wait=False, cancel_futures=True)
            parts = [each.result() for each in begun]
            parts = parts or [self._encoded(each, with_spans) for each in slices]
            arrays = zip(*(each for each, _ in parts), strict=True)
            tokens = Tokens(*map(np.concatenate, arrays))
            num_left_out = sum(count for _, count in parts)
        if not num_left_out:  # asked so, because one text alone would wait for the array operations
            return tokens, np.empty(0, np.int64)
        left_out = np.flatnonzero(tokens.counts < 0)
        tokens.counts[left_out] = 0
        return tokens, left_out

    def _encoded(self, texts: Sequence[str], with_spans: bool) -> tuple[Tokens, int]:
        """With -1 as the count of texts that are left out; and how many these are."""
        characters, lengths = _characters(texts), _lengths(texts)
        room = MOST_BECOME * (len(characters) // _CHARACTER_BYTES)
        ids, counts = np.empty(room, np.int32), np.empty(len(texts), np.int64)
        num_spans = room if with_spans else 0
        spans, words = np.empty((num_spans, 2), np.int32), np.empty(num_spans, np.int32)
        texts_in = _Texts(characters, _address(lengths), len(texts))
        tokens_out = _Tokens(ids=_address(ids), counts=_address(counts))
        if with_spans:
            tokens_out.spans, tokens_out.words = _address(spans), _address(words)
        arguments = tuple(map(ctypes.byref, (self._rules, texts_in, tokens_out)))
        while (num_tokens := self._encode(*arguments)) < 0:
            if num_tokens == _NO_ROOM:
                raise MemoryError(f"no memory for a text of {int(lengths.max()):,} characters")
            self._characters.learn(np.unique(np.frombuffer(characters, np.uint32)))
        if with_spans:  # copies, because what they are parts of is several times as large
            spans, words = spans[:num_tokens].copy(), words[:num_tokens].copy()
        tokens = Tokens(ids[:num_tokens].copy(), spans, words, counts)
        return tokens, int(tokens_out.num_left_out)


def is_there() -> bool:
    """Whether there can be one: there is a compiler, and nobody does without."""
    return library(SOURCE, _BUILD) is not None


def _planted(
    library: ctypes.CDLL, row_of: Mapping[str, int]
) -> tuple[npt.NDArray[np.uint8], _Trie]:
    """The trie of a vocabulary, and the memory that it lies in.

    No word begins with `##`, because each of these signs is a word.
    """
    entries = [entry.removeprefix("##") for entry in row_of]
    arrays = (
        _lengths(entries),
        np.fromiter(row_of.values(), np.int32, count=len(entries)),
        np.array([entry.startswith("##") for entry in row_of], np.bool_),
    )
    addresses = (ctypes.c_void_p(_address(array)) for array in arrays)
    arguments = (_characters(entries), *addresses, ctypes.c_int64(len(entries)))
    plant = library["plant"]
    plant.restype = ctypes.c_bool
    bits = max(4, len(entries).bit_length() + 1)
    while True:
        steps = np.zeros(_STEP_BYTES << bits, np.uint8)
        trie = _Trie(_address(steps), bits)
        if plant(ctypes.byref(trie), *arguments):
            return steps, trie
        bits += 1


def _characters(texts: Sequence[str]) -> bytes:
    """Of all texts, end to end."""
    return "".join(texts).encode(_CODEC, "surrogatepass")


def _lengths(texts: Sequence[str]) -> Counts:
    return np.fromiter(map(len, texts), np.int64, count=len(texts))


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """One after the other, at least one."""
    start, size = 0, 0
    for end, text in enumerate(texts, 1):
        size += len(text)
        if size >= _SLICE:
            yield texts[start:end]
            start, size = end, 0
    if start < len(texts) or not texts:
        yield texts[start:]


def _num_threads() -> int:
    """As many as this process may use, unless the library's variables say otherwise."""
    if os.environ.get("TOKENIZERS_PARALLELISM", "true").lower() in _NO:
        return 1
    given = os.environ.get("RAYON_NUM_THREADS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else len(os.sched_getaffinity(0))


def _address(array: npt.NDArray[np.generic]) -> int | None:
    """Null for none. Several times as fast as `array.ctypes`."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array.data)) if array.size else None
