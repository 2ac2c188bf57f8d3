"""Documents in memory -> a corpus with the face of `corpus.store.Corpus`, for the tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bertsmith.corpus.spans import Spans
from bertsmith.randomness import integers

Document = list[int]  # sentence lengths in tokens


@dataclass(frozen=True, kw_only=True)
class InMemoryShard:
    sentences: Spans
    documents: Spans
    token_base: int
    document_base: int

    @property
    def num_documents(self) -> int:
        return self.documents.count

    @property
    def num_sentences(self) -> int:
        return self.sentences.count

    @property
    def num_tokens(self) -> int:
        return int(self.sentences.edges()[-1])


@dataclass(frozen=True, kw_only=True)
class InMemoryTokenizer:
    """Vocabulary: [PAD] [UNK] [CLS] [SEP] [MASK], then words; every third one continues a word."""

    vocab_size: int
    cls_id: int = 2
    sep_id: int = 3
    mask_id: int = 4

    @property
    def is_continuation(self) -> np.ndarray:
        numbers = np.arange(self.vocab_size)
        return (numbers > 4) & (numbers % 3 == 0)


def articles(num: int, sentences: int, seed: int, longest: int = 40) -> list[list[int]]:
    """Documents of about so many sentences of 1 to `longest` tokens."""
    counts = 1 + integers(2 * sentences - 1, seed, 1, np.arange(num))
    return [
        (1 + integers(longest, seed, 2, n, np.arange(count))).tolist()
        for n, count in enumerate(counts.tolist())
    ]


class InMemoryCorpus:
    """Token n of the split has the id 5 + (hash of n) % (vocab_size - 5)."""

    def __init__(self, shards: Sequence[Sequence[Document]], vocab_size: int = 1000) -> None:
        self.vocab_size = vocab_size
        made, token_base, document_base = [], 0, 0
        for documents in shards:
            shard = _shard(documents, token_base, document_base)
            made.append(shard)
            token_base += shard.num_tokens
            document_base += shard.num_documents
        self.shards = tuple(made)
        self.num_tokens, self.num_documents = token_base, document_base

    def tokenizer(self) -> InMemoryTokenizer:
        return InMemoryTokenizer(vocab_size=self.vocab_size)

    def shard_of_document(self, documents: np.ndarray) -> np.ndarray:
        bases = [shard.document_base for shard in self.shards]
        return np.searchsorted(bases, documents, side="right") - 1

    def read(self, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        numbers = [np.arange(start, end) for start, end in zip(starts, ends, strict=True)]
        ids = 5 + integers(self.vocab_size - 5, 99, np.concatenate(numbers))
        return ids.astype(np.int32), ends - starts


def _shard(documents: Sequence[Document], token_base: int, document_base: int) -> InMemoryShard:
    return InMemoryShard(
        sentences=Spans.of(np.array([n for document in documents for n in document])),
        documents=Spans.of(np.array([len(document) for document in documents])),
        token_base=token_base,
        document_base=document_base,
    )
