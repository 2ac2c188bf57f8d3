"""Texts -> their tokens with spans: in their Unicode form, by tables where these can tell.

`fast_wordpiece` takes what its tables can say, `library_wordpiece` what they cannot, and everything
where there is no compiler; both give the same. This file knows neither special tokens nor files.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

import numpy as np

from bertsmith.batch import starts_of
from bertsmith.compiler import is_off
from bertsmith.text import fast_wordpiece
from bertsmith.text.encoding import Counts, IntArray, Tokens
from bertsmith.text.fast_wordpiece import FastWordPiece
from bertsmith.text.library_wordpiece import LibraryWordPiece
from bertsmith.text.rules import TokenizerConfig
from bertsmith.text.unicode_form import Origin, in_form


class WordPiece:
    """The encoding half of a tokenizer: no token of a text is special here."""

    def __init__(self, row_of: Mapping[str, int], unk_id: int, config: TokenizerConfig) -> None:
        self._row_of = row_of
        self._unk_id = unk_id
        self._config = config
        self._library = LibraryWordPiece(row_of, unk_id, config)
        self._fast: FastWordPiece | None = None

    def encode(self, texts: Sequence[str]) -> Tokens:
        """All texts' tokens, with spans in the texts as given and word numbers."""
        form = self._config.unicode_form
        if form == "none":
            return self._tokens(texts)
        in_forms = [in_form(text, form) for text in texts]
        tokens = self._tokens([text for text, _ in in_forms])
        origins = (origin for _, origin in in_forms)
        for origin, end, count in zip(
            origins, np.cumsum(tokens.counts), tokens.counts, strict=True
        ):
            _to_original(tokens.spans[end - count : end], origin)
        return tokens

    def ids(self, texts: Sequence[str]) -> tuple[IntArray, Counts]:
        """All texts' ids (T,), and how many each has: what `encode` gives, faster."""
        form = self._config.unicode_form
        if form != "none":
            texts = [unicodedata.normalize(form, text) for text in texts]
        tables = self._tables()
        if tables is None:
            return self._library.ids(texts)
        tokens, left_out = tables.encode(texts, with_spans=False)
        if not len(left_out):
            return tokens.ids, tokens.counts
        ids, counts = self._library.ids([texts[number] for number in left_out])
        places = np.repeat(starts_of(tokens.counts)[left_out], counts)
        tokens.counts[left_out] = counts
        return np.insert(tokens.ids, places, ids), tokens.counts

    def words(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """The normalised words, each with its character range in the text."""
        form = self._config.unicode_form
        text, origin = (text, None) if form == "none" else in_form(text, form)
        found = self._library.words(text)
        spans = np.array([span for _, span in found], np.int32).reshape(-1, 2)
        _to_original(spans, origin)
        pairs = ((int(start), int(end)) for start, end in spans)
        return [(word, pair) for (word, _), pair in zip(found, pairs, strict=True)]

    def _tokens(self, texts: Sequence[str]) -> Tokens:
        """Of texts in their form."""
        tables = self._tables()
        if tables is None:
            return self._library.encode(texts)
        tokens, left_out = tables.encode(texts)
        if not len(left_out):
            return tokens
        others = self._library.encode([texts[number] for number in left_out])
        places = np.repeat(starts_of(tokens.counts)[left_out], others.counts)
        tokens.counts[left_out] = others.counts
        return Tokens(
            np.insert(tokens.ids, places, others.ids),
            np.insert(tokens.spans, places, others.spans, axis=0),
            np.insert(tokens.words, places, others.words),
            tokens.counts,
        )

    def _tables(self) -> FastWordPiece | None:
        """Made when they are first needed; None where there can be none, or nobody wants them."""
        if self._fast is None and fast_wordpiece.is_there():
            self._fast = FastWordPiece(self._row_of, self._unk_id, self._config)
        return None if is_off() else self._fast


def _to_original(spans: IntArray, origin: Origin | None) -> None:
    """Changes spans to the text as it was before it was brought into its form."""
    if origin is not None:
        spans[:, 0] = origin.starts[spans[:, 0]]
        spans[:, 1] = origin.ends[spans[:, 1] - 1]
