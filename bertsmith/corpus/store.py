"""A corpus on disk -> documents, sentences and tokens, memory-mapped.

A split is a list of shards. A shard is seven standard .npy files: its tokens, and how many of them
each sentence has and how many sentences each document (three files each, so that little is stored
and any is found without a walk from the start; see `spans`). Opening a corpus reads the manifest
alone, whatever the corpus's size, and a bounded number of files is open at once. `corpus.writer`
writes what is read here. Nothing here knows pairs or masks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray, starts_of
from bertsmith.corpus.manifest import Manifest, ShardFacts, Split
from bertsmith.corpus.spans import Spans
from bertsmith.files import sha256
from bertsmith.text.tokenizer import Tokenizer

COUNTS_FILE = "counts.npy"
VOCABULARY_FOLDER = "vocab"

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


class OpenArrays:
    """Memory-maps .npy files, the most recently used `limit` of them open at once."""

    def __init__(self, limit: int = 256) -> None:
        self._limit = limit
        self._load = lru_cache(maxsize=limit)(_memory_mapped)

    def __call__(self, path: Path) -> IntArray:
        """The file's array, read-only."""
        return self._load(path)

    def __reduce__(self) -> tuple[type[OpenArrays], tuple[int]]:
        """Pickles as closed: another process maps the files anew."""
        return OpenArrays, (self._limit,)


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Consecutive documents of a split. D documents, S sentences, T tokens."""

    directory: Path
    facts: ShardFacts
    token_base: int
    """The number of its first token in the whole split."""
    document_base: int
    """The number of its first document in the whole split."""
    open_arrays: OpenArrays = field(repr=False, compare=False)

    @property
    def num_documents(self) -> int:
        """D."""
        return self.facts.num_documents

    @property
    def num_sentences(self) -> int:
        """S."""
        return self.facts.num_sentences

    @property
    def num_tokens(self) -> int:
        """T."""
        return self.facts.num_tokens

    @property
    def tokens(self) -> IntArray:
        """(T,) uint16, or uint32 for more than 65,536 entries in the vocabulary."""
        return self._array("tokens")

    @property
    def sentences(self) -> Spans:
        """S of them, in tokens."""
        return self._spans("sentence", self.num_sentences)

    @property
    def documents(self) -> Spans:
        """D of them, in sentences."""
        return self._spans("document", self.num_documents)

    def _spans(self, thing: str, count: int) -> Spans:
        short, long, marks = (self._array(name) for name in span_arrays(thing))
        return Spans(count=count, short=short, long=long, marks=marks)

    def _array(self, name: str) -> IntArray:
        return self.open_arrays(array_path(self.directory, self.facts.name, name))


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """One split of a corpus. Token and document numbers count through all its shards."""

    directory: Path
    split: Split
    manifest: Manifest
    shards: tuple[Shard, ...]

    @staticmethod
    def open(directory: str | Path, split: Split = "train", verify: bool = False) -> Corpus:
        """Opens a finished corpus; `verify` reads every file once and compares the checksums.

        Raises FileNotFoundError without a manifest or a listed file, ValueError for a file that is
        not what the manifest says.
        """
        directory = Path(directory)
        manifest = Manifest.read(directory)
        shards = tuple(_shards(directory / split, manifest.shards[split]))
        corpus = Corpus(directory=directory, split=split, manifest=manifest, shards=shards)
        corpus._require_files()
        if verify:
            corpus._verify()
        return corpus

    @cached_property
    def num_documents(self) -> int:
        """Documents of the split."""
        return sum(shard.num_documents for shard in self.shards)

    @cached_property
    def num_sentences(self) -> int:
        """Sentences of the split."""
        return sum(shard.num_sentences for shard in self.shards)

    @cached_property
    def num_tokens(self) -> int:
        """Tokens of the split."""
        return sum(shard.num_tokens for shard in self.shards)

    def shard_of_document(self, documents: Int64Array) -> Int64Array:
        """(n,) the shard that holds each document of the split."""
        return np.searchsorted(self._document_bases, documents, side="right") - 1

    def document_sentences(self, document: int) -> list[Int32Array]:
        """The token ids of one document, sentence by sentence."""
        shard = self.shards[int(self.shard_of_document(np.array([document]))[0])]
        local = np.array([document - shard.document_base])
        first = shard.documents.starts(local)
        start = int(shard.sentences.starts(first)[0])
        sentences = first + np.arange(shard.documents.lengths(local)[0])
        edges = np.cumsum(shard.sentences.lengths(sentences))
        tokens = shard.tokens[start : start + int(edges[-1])]
        return np.split(tokens.astype(np.int32), edges[:-1])

    def read(self, token_start: Int64Array, token_end: Int64Array) -> tuple[Int32Array, Int64Array]:
        """Gathers n ranges of tokens, laid end to end: ids (T,) and lengths (n,).

        Ranges are half-open, in token numbers of the split, and stay inside one shard each.
        """
        lengths = token_end - token_start
        rows = np.repeat(token_start - starts_of(lengths), lengths) + np.arange(lengths.sum())
        shards = np.searchsorted(self._token_bases, token_start, side="right") - 1  # (n,)
        shard_of_row = np.repeat(shards, lengths)  # (T,)
        ids = np.empty(len(rows), dtype=np.int32)
        for number in np.unique(shards).tolist():
            shard, here = self.shards[number], shard_of_row == number
            ids[here] = shard.tokens[rows[here] - shard.token_base]
        return ids, lengths

    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the corpus was built with; raises ValueError if it was changed."""
        tokenizer = Tokenizer.load(self.directory / VOCABULARY_FOLDER)
        self.check_vocabulary(tokenizer)
        return tokenizer

    def check_vocabulary(self, tokenizer: Tokenizer) -> None:
        """Raises ValueError unless the corpus was built with this vocabulary and these rules."""
        expected = self.manifest.vocabulary_fingerprint
        if tokenizer.fingerprint != expected:
            raise ValueError(
                f"the vocabulary does not belong to the corpus {self.directory}: its fingerprint "
                f"is {tokenizer.fingerprint[:12]} ({tokenizer.vocab_size:,} entries), the corpus "
                f"was built with {expected[:12]} ({self.manifest.vocab_size:,} entries). Use "
                f"{self.directory / VOCABULARY_FOLDER}, or build the corpus again"
            )

    @cached_property
    def token_counts(self) -> Int64Array:
        """(V,) how often each token occurs in the training split."""
        counts: Int64Array = np.load(self.directory / COUNTS_FILE)
        return counts

    @cached_property
    def unigram_entropy(self) -> float:
        """Nats a token of the training split for a model that knows how frequent tokens are."""
        counts = self.token_counts[self.token_counts > 0]
        shares = counts / counts.sum()
        return float(-(shares * np.log(shares)).sum())

    @cached_property
    def _document_bases(self) -> Int64Array:
        return np.array([shard.document_base for shard in self.shards], dtype=np.int64)

    @cached_property
    def _token_bases(self) -> Int64Array:
        return np.array([shard.token_base for shard in self.shards], dtype=np.int64)

    def _checksums(self) -> dict[Path, str]:
        """Every file of the split that the manifest lists."""
        arrays = {
            array_path(shard.directory, shard.facts.name, array): checksum
            for shard in self.shards
            for array, checksum in shard.facts.checksums.items()
        }
        return {**arrays, self.directory / COUNTS_FILE: self.manifest.counts_checksum}

    def _require_files(self) -> None:
        if missing := [path for path in self._checksums() if not path.is_file()]:
            raise FileNotFoundError(
                f"{missing[0]} is missing, one of {len(missing)} such files that the manifest "
                f"lists: copy the corpus again, or delete {self.directory} and build it again"
            )

    def _verify(self) -> None:
        for path, checksum in self._checksums().items():
            if (found := sha256(path)) != checksum:
                raise ValueError(
                    f"{path} is damaged: its SHA-256 is {found[:12]}, the manifest says "
                    f"{checksum[:12]}. Build the corpus again"
                )


def span_arrays(thing: str) -> tuple[str, str, str]:
    """The arrays of a shard's sentences or documents: their `short`, `long` and `marks`."""
    return f"{thing}s", f"long_{thing}s", f"{thing}_marks"


def array_path(directory: Path, shard_name: str, array: str) -> Path:
    """Where one array of a shard lies."""
    return directory / f"{shard_name}.{array}.npy"


def _shards(directory: Path, facts: Iterable[ShardFacts]) -> Iterable[Shard]:
    open_arrays = OpenArrays()
    token_base = document_base = 0
    for shard in facts:
        yield Shard(
            directory=directory,
            facts=shard,
            token_base=token_base,
            document_base=document_base,
            open_arrays=open_arrays,
        )
        token_base += shard.num_tokens
        document_base += shard.num_documents


def _memory_mapped(path: Path) -> IntArray:
    """The plain array over the map: numpy's memmap class is slow to index."""
    return np.asarray(np.load(path, mmap_mode="r"))
