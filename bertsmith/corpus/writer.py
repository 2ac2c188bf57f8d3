"""Documents of token ids -> shards on disk.

A shard is cut at the first document border at or past its size, so the same documents in the same
order give the same bytes, however they were handed over. It is written when a document follows, so
that the latest one can still be taken back. Finished shards are written atomically;
what is not yet a whole shard is held in memory, and can be set aside and taken up again. It does
not know where documents come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.array_files import write_array
from bertsmith.batch import IntArray, starts_of
from bertsmith.corpus.manifest import ShardFacts
from bertsmith.corpus.spans import Spans
from bertsmith.corpus.store import array_path, span_arrays
from bertsmith.files import sha256

SHARD_TOKENS = 1 << 24
MAX_SENTENCE_TOKENS = (1 << 16) - 1


@dataclass(frozen=True, kw_only=True)
class Documents:
    """Consecutive documents: D of them, with S sentences and T tokens."""

    token_ids: IntArray
    """(T,)."""
    sentence_lengths: IntArray
    """(S,) tokens of each sentence, 1 to 65,535."""
    sentence_counts: IntArray
    """(D,) sentences of each document, at least 1."""

    @property
    def token_counts(self) -> npt.NDArray[np.int64]:
        """(D,) tokens of each document."""
        if not len(self.sentence_counts):
            return np.zeros(0, dtype=np.int64)
        starts = starts_of(self.sentence_counts)
        return np.add.reduceat(self.sentence_lengths, starts, dtype=np.int64)

    def select(self, chosen: npt.NDArray[np.bool_]) -> Documents:
        """The documents where `chosen`, (D,), is true."""
        sentences = np.repeat(chosen, self.sentence_counts)
        return Documents(
            token_ids=self.token_ids[np.repeat(sentences, self.sentence_lengths)],
            sentence_lengths=self.sentence_lengths[sentences],
            sentence_counts=self.sentence_counts[chosen],
        )

    def cut(self, document: int) -> tuple[Documents, Documents]:
        """The documents before number `document`, and the others."""
        sentence = int(self.sentence_counts[:document].sum())
        token = int(self.sentence_lengths[:sentence].sum(dtype=np.int64))
        before = (slice(None, token), slice(None, sentence), slice(None, document))
        after = (slice(token, None), slice(sentence, None), slice(document, None))
        first, second = (
            Documents(
                token_ids=self.token_ids[tokens],
                sentence_lengths=self.sentence_lengths[sentences],
                sentence_counts=self.sentence_counts[documents],
            )
            for tokens, sentences, documents in (before, after)
        )
        return first, second

    @staticmethod
    def join(parts: Sequence[Documents], token_type: npt.DTypeLike) -> Documents:
        """The parts' documents in order, in the narrowest types; no parts give no documents."""

        def joined(name: str, dtype: npt.DTypeLike) -> IntArray:
            arrays = [np.zeros(0, dtype=dtype), *(getattr(part, name) for part in parts)]
            return np.concatenate([array.astype(dtype, copy=False) for array in arrays])

        return Documents(
            token_ids=joined("token_ids", token_type),
            sentence_lengths=joined("sentence_lengths", np.uint16),
            sentence_counts=joined("sentence_counts", np.uint32),
        )


class ShardWriter:
    """Appends documents to one split; `shards` lists what is finished, `counts` its tokens."""

    def __init__(
        self,
        directory: Path,
        vocab_size: int,
        *,
        shard_tokens: int = SHARD_TOKENS,
        shards: Sequence[ShardFacts] = (),
        counts: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.shards: list[ShardFacts] = list(shards)
        self.counts = np.zeros(vocab_size, dtype=np.int64) if counts is None else counts.copy()
        self._directory = directory
        self._shard_tokens = shard_tokens
        self._token_type = token_type(vocab_size)
        self._parts: list[Documents] = []
        self._num_pending = 0

    @property
    def num_documents(self) -> int:
        """Documents in finished shards and pending."""
        pending = sum(len(part.sentence_counts) for part in self._parts)
        return pending + sum(shard.num_documents for shard in self.shards)

    def append(self, documents: Documents) -> None:
        """Adds documents; writes every shard that is full before the last of them."""
        while len(documents.sentence_counts):
            if self._num_pending >= self._shard_tokens:
                self.flush()
            filled = self._num_pending + np.cumsum(documents.token_counts)
            last = int(np.searchsorted(filled, self._shard_tokens))
            head, documents = documents.cut(last + 1)
            self._hold(head)

    def take_last(self) -> Documents:
        """Takes the latest document back, as if it had never come, and returns it."""
        pending = self.pending()
        rest, latest = pending.cut(len(pending.sentence_counts) - 1)
        self._parts, self._num_pending = [rest], len(rest.token_ids)
        return latest

    def pending(self) -> Documents:
        """The documents that no finished shard holds yet."""
        self._parts = [Documents.join(self._parts, self._token_type)]
        return self._parts[0]

    def flush(self) -> None:
        """Writes what is pending as a shard, if anything is."""
        documents = self.pending()
        self._parts, self._num_pending = [], 0
        if len(documents.sentence_counts):
            name = f"shard-{len(self.shards):05}"
            self.shards.append(_write_shard(self._directory, name, documents))
            self.counts += np.bincount(documents.token_ids, minlength=len(self.counts))

    def _hold(self, documents: Documents) -> None:
        narrow = Documents.join([documents], self._token_type)
        self._parts.append(narrow)
        self._num_pending += len(narrow.token_ids)


def token_type(vocab_size: int) -> type[np.unsignedinteger]:
    """The type of a token on disk: two bytes up to 65,536 entries, four above."""
    return np.uint16 if vocab_size <= 1 << 16 else np.uint32


def _write_shard(directory: Path, name: str, documents: Documents) -> ShardFacts:
    lengths, counts = documents.sentence_lengths, documents.sentence_counts
    assert len(documents.token_ids) < 1 << 32
    arrays: dict[str, IntArray] = {"tokens": documents.token_ids}
    for thing, spans in (("sentence", Spans.of(lengths)), ("document", Spans.of(counts))):
        parts = (spans.short, spans.long, spans.marks)
        arrays |= dict(zip(span_arrays(thing), parts, strict=True))
    checksums = {}
    for array, values in arrays.items():
        path = array_path(directory, name, array)
        write_array(path, values)
        checksums[array] = sha256(path)
    return ShardFacts(
        name=name,
        num_documents=len(counts),
        num_sentences=len(lengths),
        num_tokens=len(documents.token_ids),
        checksums=checksums,
    )
