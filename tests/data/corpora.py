"""Small corpora on disk, made from lists of token ids, without a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bertsmith.corpus.manifest import SPLITS, Manifest, Report, Split
from bertsmith.corpus.store import COUNTS_FILE
from bertsmith.corpus.writer import Documents, ShardWriter
from bertsmith.files import sha256

TokenDocument = Sequence[Sequence[int]]


def documents_of(documents: Sequence[TokenDocument]) -> Documents:
    """Documents of sentences of token ids, as the arrays that are written."""
    sentences = [sentence for document in documents for sentence in document]
    return Documents(
        token_ids=np.array([token for sentence in sentences for token in sentence], dtype=np.int64),
        sentence_lengths=np.array([len(sentence) for sentence in sentences], dtype=np.int64),
        sentence_counts=np.array([len(document) for document in documents], dtype=np.int64),
    )


def write_corpus(
    directory: Path,
    splits: Mapping[Split, Sequence[TokenDocument]],
    *,
    vocab_size: int = 1000,
    shard_tokens: int = 1 << 24,
) -> Path:
    """Writes a finished corpus of these documents, without `vocab/`; returns its directory."""
    writers = {
        split: ShardWriter(directory / split, vocab_size, shard_tokens=shard_tokens)
        for split in SPLITS
    }
    for split, documents in splits.items():
        writers[split].append(documents_of(documents))
    for writer in writers.values():
        writer.flush()
    directory.mkdir(parents=True, exist_ok=True)
    np.save(directory / COUNTS_FILE, writers["train"].counts)
    Manifest(
        vocabulary_fingerprint="0" * 64,
        vocab_size=vocab_size,
        settings={},
        shards={split: tuple(writer.shards) for split, writer in writers.items()},
        counts_checksum=sha256(directory / COUNTS_FILE),
        report=Report(),
    ).write(directory)
    return directory
