"""A block of raw documents -> its token ids, with all that a build counts: the work of a worker.

It does not know files, shards or other workers: the same block gives the same result anywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray, starts_of
from bertsmith.corpus.blocks import Block, Position
from bertsmith.corpus.duplicates import sentence_hashes
from bertsmith.corpus.writer import MAX_SENTENCE_TOKENS, Documents, token_type
from bertsmith.reading.documents import Language, sentences_of
from bertsmith.text.tokenizer import Tokenizer

NO_TOKENS = "sentences without a token"
NO_SENTENCES = "documents without a sentence"


@dataclass(frozen=True, kw_only=True)
class EncodedBlock:
    """The documents of a block that hold at least one token: D of them, with S sentences."""

    documents: Documents
    numbers: npt.NDArray[np.int64]
    """(D,) each document's number in the whole input, those left out counted."""
    hashes: npt.NDArray[np.uint64]
    """(S,)."""
    characters: int
    """Of the sentences."""
    unknown_tokens: int
    cut_sentences: int
    skipped: Counter[str]
    """What was left out since the block before, by reason."""
    end: Position
    bytes_read: int
    """Bytes of the input on disk consumed so far."""


class BlockEncoder:
    """Encodes blocks, one by one, with one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, language: Language) -> None:
        self._unk_id = tokenizer.unk_id
        self._token_type = token_type(tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self._language = language

    def __call__(self, block: Block) -> EncodedBlock:
        """Splits the documents into sentences and these into tokens."""
        skipped = Counter(block.skipped)
        sentences: list[str] = []
        counts: IntArray = np.zeros(len(block.documents), dtype=np.int64)
        for place, raw in enumerate(block.documents):
            found = sentences_of(raw, self._language, skipped=skipped)
            counts[place] = len(found)
            sentences += found
        token_ids, lengths = self._tokenizer.ids(sentences)
        kept_lengths, counts = _without_empty(lengths, counts, skipped)
        kept_lengths, counts, cut = _within_limit(kept_lengths, counts)
        places = np.flatnonzero(counts)
        narrow = token_ids.astype(self._token_type)
        return EncodedBlock(
            documents=Documents(
                token_ids=narrow,
                sentence_lengths=kept_lengths.astype(np.uint16),
                sentence_counts=counts[places].astype(np.uint32),
            ),
            numbers=block.end.number - len(block.documents) + places,
            hashes=sentence_hashes(token_ids, kept_lengths),
            characters=sum(map(len, sentences)),
            unknown_tokens=int(np.count_nonzero(token_ids == self._unk_id)),
            cut_sentences=cut,
            skipped=skipped,
            end=block.end,
            bytes_read=block.bytes_read,
        )


def _without_empty(
    lengths: IntArray, counts: IntArray, skipped: Counter[str]
) -> tuple[IntArray, IntArray]:
    """Drops and counts sentences of no tokens, and documents that thereby lose all of theirs."""
    documents = np.repeat(np.arange(len(counts)), counts)  # (S,)
    kept = lengths > 0
    new_counts = np.bincount(documents[kept], minlength=len(counts))
    skipped[NO_TOKENS] += int(np.count_nonzero(~kept))
    skipped[NO_SENTENCES] += int(np.count_nonzero((counts > 0) & (new_counts == 0)))
    return lengths[kept], new_counts


def _within_limit(lengths: IntArray, counts: IntArray) -> tuple[IntArray, IntArray, int]:
    """Cuts sentences longer than a uint16 can count; returns how many were cut."""
    pieces = -(-lengths // MAX_SENTENCE_TOKENS)  # (S,)
    if not (pieces > 1).any():
        return lengths, counts, 0
    sentences = np.repeat(np.arange(len(lengths)), pieces)
    is_last = np.append(sentences[1:] != sentences[:-1], True)
    new_lengths = np.full(len(sentences), MAX_SENTENCE_TOKENS, dtype=np.int64)
    new_lengths[is_last] = lengths - (pieces - 1) * MAX_SENTENCE_TOKENS
    ends = np.append(0, np.cumsum(pieces))[np.append(starts_of(counts), len(lengths))]
    return new_lengths, np.diff(ends), int(np.count_nonzero(pieces > 1))
