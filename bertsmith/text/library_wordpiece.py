"""Texts -> their tokens with spans, by the `tokenizers` library where it is right, or by `rules`.

One regular expression chooses: a text with a character on which the library differs from the
original goes through `rules`, all others through the library. This file knows neither Unicode forms
nor special tokens nor files.

Source: google-research/bert, tokenization.py: FullTokenizer.
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from tokenizers import PreTokenizedString, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as NativeTokenizer

from bertsmith.batch import starts_of
from bertsmith.text.encoding import Counts, IntArray, Tokens
from bertsmith.text.rules import TokenizerConfig, exact_words, rare_characters, word_pieces


class _Found(NamedTuple):
    """One text's tokens as the native library names them."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: Sequence[int | None]


class LibraryWordPiece:
    """The encoding half of a tokenizer, for texts already in their Unicode form."""

    def __init__(self, row_of: Mapping[str, int], unk_id: int, config: TokenizerConfig) -> None:
        self._row_of = row_of
        self._unk_id = unk_id
        self._config = config
        self._rare = rare_characters(config)

    def encode(self, texts: Sequence[str]) -> Tokens:
        """All texts' tokens, with spans and word numbers."""
        exact = {n: self._exact(text) for n, text in enumerate(texts) if self._needs_exact(text)}
        plain = [text for number, text in enumerate(texts) if number not in exact]
        native = iter(self._native.encode_batch(plain, add_special_tokens=False))
        found = [exact[n] if n in exact else next(native) for n in range(len(texts))]
        ids = [one.ids for one in found]
        counts = np.fromiter(map(len, ids), np.int64, count=len(ids))
        offsets = chain.from_iterable(one.offsets for one in found)
        tokens = Tokens(
            _as_array(chain.from_iterable(ids)),
            _as_array(chain.from_iterable(offsets)).reshape(-1, 2),
            _as_array(chain.from_iterable(one.word_ids for one in found)),
            counts,
        )
        for text, start, count in zip(texts, starts_of(counts), counts, strict=True):
            self._with_marks(tokens.spans[start : start + count], text)
        return tokens

    def ids(self, texts: Sequence[str]) -> tuple[IntArray, Counts]:
        """All texts' ids (T,), and how many each has: what `encode` gives, faster."""
        exact = {
            number: self._exact(text).ids
            for number, text in enumerate(texts)
            if self._needs_exact(text)
        }
        plain = [text for number, text in enumerate(texts) if number not in exact]
        native = self._native.encode_batch_fast(plain, add_special_tokens=False)
        lists = [encoding.ids for encoding in native]
        for number, rows in exact.items():
            lists.insert(number, rows)
        counts = np.fromiter(map(len, lists), np.int64, count=len(lists))
        return _as_array(chain.from_iterable(lists)), counts

    def words(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """The normalised words, each with its character range in the text."""
        if self._needs_exact(text):
            exact = exact_words(text, self._config)
            spellings = [word.text for word in exact]
            ranges = [word.span() for word in exact]
        else:
            split = PreTokenizedString(text)
            split.normalize(self._native.normalizer.normalize)
            self._native.pre_tokenizer.pre_tokenize(split)
            splits = split.get_splits("original", "char")
            spellings = [spelling for spelling, _, _ in splits]
            ranges = [span for _, span, _ in splits]
        spans = np.array(ranges, np.int32).reshape(-1, 2)
        self._with_marks(spans, text)
        pairs = [(int(start), int(end)) for start, end in spans]
        return list(zip(spellings, pairs, strict=True))

    @functools.cached_property
    def _native(self) -> NativeTokenizer:
        """Made when it is first needed, in some 30 ms."""
        return native_tokenizer(self._row_of, self._config)

    def _exact(self, text: str) -> _Found:
        """The tokens by the plain rules, spans in the text as given."""
        ids, spans, words = [], [], []
        for number, word in enumerate(exact_words(text, self._config)):
            limit = self._config.word_limit
            end = 0
            for id, length in word_pieces(word.text, self._row_of, self._unk_id, limit):
                begin, end = end, end + length
                ids.append(id)
                spans.append(word.span(begin, end))
                words.append(number)
        return _Found(ids, spans, words)

    def _needs_exact(self, text: str) -> bool:
        return not text.isascii() and self._rare.search(text) is not None

    def _with_marks(self, spans: IntArray, text: str) -> None:
        """Each span with the stripped accents that follow it."""
        if self._config.strip_accents and not text.isascii() and _holds_marks(text):
            spans[:, 1] = [_past_marks(text, end) for end in spans[:, 1].tolist()]


def native_tokenizer(row_of: Mapping[str, int], config: TokenizerConfig) -> NativeTokenizer:
    """The library's tokenizer for a text already in its Unicode form, knowing no special tokens."""
    model = models.WordPiece(
        dict(row_of), unk_token="[UNK]", max_input_chars_per_word=config.word_limit
    )
    native = NativeTokenizer(model)
    native.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=config.split_cjk,
        strip_accents=config.strip_accents,
        lowercase=config.lowercase,
    )
    native.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return native


def _as_array(numbers: Iterable[int | None]) -> IntArray:
    return np.fromiter(numbers, np.int32)


def _holds_marks(text: str) -> bool:
    return any(unicodedata.category(character) == "Mn" for character in set(text))


def _past_marks(text: str, end: int) -> int:
    while end < len(text) and unicodedata.category(text[end]) == "Mn":
        end += 1
    return end
