"""Text -> token ids with their character spans, and back: WordPiece by the original's rules.

The door of this room: special tokens, pairs, decoding. `wordpiece` encodes, `rules` holds the
original's rules, `tokenizer_files` the files. It does not know corpora or models.

Source: google-research/bert, tokenization.py (FullTokenizer).
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.text import tokenizer_files
from bertsmith.text.encoding import (
    Encoding,
    Tokens,
    between_special_tokens,
    encodings,
    with_entries,
)
from bertsmith.text.rules import SPECIAL_TOKENS, TokenizerConfig, UnicodeForm
from bertsmith.text.wordpiece import WordPiece

__all__ = ["Encoding", "Tokenizer", "TokenizerConfig", "UnicodeForm"]

_BLANK_LEFT_OUT = re.compile(r" ##|(?<=[(\[{]) | (?=[.,!?;:)\]}%…。、！？])")
_APOSTROPHE = re.compile(r"(?<=[^\W\d_]) (['’]) (?=[^\W\d_])")


class Tokenizer:
    """A vocabulary and the rules beside it; equal values encode equally, in any process."""

    def __init__(self, vocabulary: Sequence[str], config: TokenizerConfig | None = None) -> None:
        """Raises ValueError when one of the five special tokens is missing from the vocabulary."""
        self.vocabulary = tuple(vocabulary)
        self.config = config or TokenizerConfig()
        # Of equal entries the last one counts, as in the original's dictionary.
        self._row_of = {token: row for row, token in enumerate(self.vocabulary)}
        needed = (*SPECIAL_TOKENS, *self.config.added_tokens)
        if missing := [token for token in needed if token not in self._row_of]:
            raise ValueError(
                f"the vocabulary of {len(self.vocabulary)} entries lacks {', '.join(missing)}; a "
                f"vocabulary with this config holds {', '.join(needed)}, one a line"
            )
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (
            self._row_of[token] for token in SPECIAL_TOKENS
        )
        self.special_ids = frozenset(self._row_of[token] for token in SPECIAL_TOKENS)
        is_continuation = [token.startswith("##") for token in self.vocabulary]
        self.is_continuation: npt.NDArray[np.bool_] = np.array(is_continuation, dtype=np.bool_)
        self._wordpiece = WordPiece(self._row_of, self.unk_id, self.config)
        self.notes: tuple[str, ...] = ()
        """What was read of it and is not followed, a sentence each."""
        self._added = _any_of(self.config.added_tokens)
        self._added_or_special = _any_of((*self.config.added_tokens, *SPECIAL_TOKENS))

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[tuple[str, ...], TokenizerConfig]]:
        """Pickled as vocabulary and config: tables are made anew, in some 10 ms."""
        return Tokenizer, (self.vocabulary, self.config)

    @classmethod
    def load(cls, path: str | Path, config: TokenizerConfig | None = None) -> Tokenizer:
        """Reads a directory of Hugging Face files, a `vocab.txt` or a `tokenizer.json`.

        `config` replaces the choices found in the files. A `vocab.txt` alone says nothing of case:
        it counts as uncased when no capital stands in it by itself and in at most a tenth of its
        entries, and as accent-stripping when it is uncased and holds no Hangul syllable. One that
        keeps accents and holds Hangul only decomposed wants texts in NFKD. Raises
        FileNotFoundError, or ValueError for files that are no WordPiece vocabulary.
        """
        vocabulary, found, notes = tokenizer_files.read(Path(path))
        try:
            tokenizer = cls(vocabulary, config or found)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        tokenizer.notes = notes
        return tokenizer

    def save(self, directory: str | Path, *, max_tokens: int | None = None) -> None:
        """Writes the four Hugging Face files, which load in `transformers` with equal ids.

        `tokenizer.json` is the nearest form the library has: the rare rules of `rules` are not in
        it, and `transformers` takes special tokens in a text for what they name. `max_tokens`, the
        longest sequence of the model beside it, is where `transformers` cuts when asked to.
        """
        tokenizer_files.write(Path(directory), self.vocabulary, self.config, max_tokens)

    @property
    def vocab_size(self) -> int:
        """V."""
        return len(self.vocabulary)

    @property
    def fingerprint(self) -> str:
        """SHA-256 in hexadecimal over the vocabulary and the config."""
        value = [self.vocabulary, dataclasses.asdict(self.config)]
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

    def id_of(self, token: str) -> int | None:
        """The token's row, or None when the vocabulary lacks it."""
        return self._row_of.get(token)

    def token_of(self, id: int) -> str:
        """The entry in a row; ValueError outside the vocabulary."""
        if not 0 <= id < self.vocab_size:
            raise ValueError(f"token id {id} is outside the vocabulary of {self.vocab_size} rows")
        return self.vocabulary[id]

    def normalize(self, text: str) -> str:
        """The text as its words are spelt in the vocabulary, blanks between them."""
        return " ".join(word for word, _ in self.words(text))

    def words(self, text: str) -> list[tuple[str, tuple[int, int]]]:
        """The normalised words, each with its character range in the original text."""
        return self._wordpiece.words(text)

    def tokenize(self, text: str) -> list[str]:
        """The tokens as text, without special tokens around them."""
        return [self.vocabulary[id] for id in self.encode(text, add_special_tokens=False).ids]

    def encode(
        self,
        text: str,
        pair: str | None = None,
        *,
        add_special_tokens: bool = True,
        special_tokens_in_text: bool | None = None,
    ) -> Encoding:
        """Encodes a text or a pair; `special_tokens_in_text` overrules the config where given.

        A special token read in a text keeps its span and is a word of its own.
        """
        special = special_tokens_in_text
        special = self.config.reads_special_tokens if special is None else special
        sides = (text,) if pair is None else (text, pair)
        return self._encoded([sides], special, add_special_tokens)[0]

    def encode_batch(
        self,
        texts: Sequence[str | tuple[str, str]],
        *,
        add_special_tokens: bool = True,
        special_tokens_in_text: bool | None = None,
    ) -> list[Encoding]:
        """Encodes texts and pairs, in the given order, equal to `encode` one by one but faster."""
        special = special_tokens_in_text
        special = self.config.reads_special_tokens if special is None else special
        sides = [(text,) if isinstance(text, str) else text for text in texts]
        return self._encoded(sides, special, add_special_tokens)

    def ids(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
        """All texts' ids end to end (T,), and how many each text has; no special tokens, no spans.

        The fastest way in. It takes every core, unless the environment variable
        TOKENIZERS_PARALLELISM is `false` or RAYON_NUM_THREADS says how many.
        """
        special = self.config.reads_special_tokens
        if self._taken_whole(special) is not None:
            tokens = self._tokens_of(texts, special)
            return tokens.ids.astype(np.uint32), tokens.counts
        ids, counts = self._wordpiece.ids(texts)
        return ids.view(np.uint32), counts

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = True) -> str:
        """Readable text: pieces joined, blanks around punctuation as English and Korean set them.

        Case, accents and the text's own blanks are lost in encoding. Decomposed Hangul is composed.
        """
        tokens = [
            self.token_of(int(id))
            for id in ids
            if not (skip_special_tokens and int(id) in self.special_ids)
        ]
        text = _BLANK_LEFT_OUT.sub("", " ".join(tokens))
        text = _APOSTROPHE.sub(r"\1", text)
        is_decomposed = self.config.strip_accents or self.config.unicode_form in ("NFD", "NFKD")
        return unicodedata.normalize("NFC", text) if is_decomposed else text

    def _encoded(
        self, sides: Sequence[tuple[str, ...]], special: bool, add_special_tokens: bool
    ) -> list[Encoding]:
        """Each `[CLS] A [SEP] B [SEP]`, or the bare tokens."""
        is_first = [number == 0 for of_one in sides for number in range(len(of_one))]
        tokens = self._tokens_of(list(chain.from_iterable(sides)), special)
        if add_special_tokens:
            tokens = between_special_tokens(tokens, is_first, self.cls_id, self.sep_id)
        return encodings(tokens, is_first)

    def _tokens_of(self, texts: Sequence[str], special: bool) -> Tokens:
        """All texts' tokens; entries to be taken whole are cut out first."""
        pattern = self._taken_whole(special)
        if pattern is None:
            return self._wordpiece.encode(texts)
        pieces = [pattern.split(text) for text in texts]
        between = self._wordpiece.encode([piece for of_one in pieces for piece in of_one[::2]])
        entries = [self._row_of[entry] for of_one in pieces for entry in of_one[1::2]]
        return with_entries(between, pieces, entries)

    def _taken_whole(self, special: bool) -> re.Pattern[str] | None:
        return self._added_or_special if special else self._added


def _any_of(entries: Sequence[str]) -> re.Pattern[str] | None:
    """One group around the entries, the longest first."""
    longest_first = sorted(entries, key=len, reverse=True)
    return re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if entries else None
