"""A shard of documents -> rows of five integers: two token ranges and whether B is random.

This is the original's `create_instances_from_document`, for a whole shard at once. The original
walks through a document: sentences join a chunk until it holds the target length; A takes the
chunk's first sentences; B is the rest of the chunk, or it is random, and then the rest of the chunk
goes back and begins the next one.

Walking is slow in numpy, so every sentence is asked instead: *if a chunk began with you, where
would the next one begin?* The answer needs only what is known before the walk: sentence lengths,
the document's target length, and draws keyed by the sentence's first token. (Such a key is enough:
A takes at least one sentence, so in one pass no two chunks begin at the same sentence.) All
sentences answer together; following the answers from the first sentence then visits every chunk of
the shard, because the sentence after a document's last is the next document's first. B's random
documents and the truncation are drawn for the visited chunks together. Nothing depends on how long
a document is: a shard of one book costs what a shard of a thousand articles costs.

This file knows ranges of token numbers, never a token. Every draw is a function of (seed, sequence
length, pass, purpose, first token).

Source: google-research/bert create_pretraining_data.py, create_instances_from_document and
truncate_seq_pair; Devlin et al. 2018, appendix A.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from bertsmith.corpus.store import Corpus, Shard
from bertsmith.data.config import PairForm
from bertsmith.data.filling import fill
from bertsmith.randomness import Counter, Int64Array, Stream, hash64, integers, uniform

Key = tuple[int, ...]

TRIES_FOR_ANOTHER_DOCUMENT = 10
ROWS_AT_ONCE = 1 << 14  # bounds the memory of filling's (rows, 64) windows


@dataclass(frozen=True, kw_only=True)
class PairRules:
    """How one sequence is cut from documents."""

    sequence_length: int = 128
    """Most tokens of a sequence, `[CLS]` and `[SEP]` included (paper: 128, then 512)."""
    short_probability: float = 0.1
    """Share of documents drawn with a shorter target, uniform from 2 up (original: 0.1)."""
    form: PairForm = "pairs"
    """`pairs`: B follows A or is random (the paper); `consecutive_pair`: B always follows, or is
    empty where a chunk has one sentence; `one_segment`: the whole chunk is A."""

    def __post_init__(self) -> None:
        """Refuses lengths that leave no room for two segments."""
        if self.sequence_length < 8:
            raise ValueError(f"sequence_length must be at least 8, found {self.sequence_length}")
        if not 0.0 <= self.short_probability <= 1.0:
            raise ValueError(
                f"short_probability must be between 0 and 1, found {self.short_probability}"
            )

    @property
    def max_tokens(self) -> int:
        """Room for A and B together, without `[CLS]` and each segment's `[SEP]`."""
        return self.sequence_length - (2 if self.form == "one_segment" else 3)


def draw(
    shard: Shard, corpus: Corpus, rules: PairRules, seed: int, pass_number: int
) -> npt.NDArray[np.int64]:
    """Draws one pass over a shard: (n, 5) a_start, a_end, b_start, b_end, is_random.

    Ranges are half-open, in token numbers of the whole split, after truncation; B is empty
    (b_start = b_end) in `one_segment`, and in `consecutive_pair` for a chunk of one sentence. Rows
    stand in the order of the text; a_start is different in every row of a pass.
    """
    key = (seed, Stream.PAIRS, rules.sequence_length, pass_number)
    chunks = _chunks(shard, rules, key)
    a_range, b_range = chunks.a_range, chunks.b_range
    random = np.flatnonzero(chunks.is_random)
    if random.size:
        a_lengths = (a_range[:, 1] - a_range[:, 0])[random]
        wanted = np.maximum(chunks.targets[random] - a_lengths, 1)
        b_range[random] = _random_seconds(
            corpus, chunks.documents[random], wanted, key, chunks.tokens[random]
        )
    a_range, b_range = _truncate(a_range, b_range, rules.max_tokens, key, chunks.tokens)
    return np.column_stack([a_range, b_range, chunks.is_random])


class _Purpose(IntEnum):
    IS_SHORT = 1
    SHORT_LENGTH = 2
    A_SENTENCES = 3
    IS_RANDOM = 4
    DOCUMENT = 5
    SENTENCE = 6
    CUT_A = 7
    CUT_B = 8


@dataclass(frozen=True, kw_only=True)
class _Chunks:
    """The n chunks of a pass, in the order of the text; all token numbers of the whole split."""

    tokens: Int64Array  # (n,) first token, the key of the chunk's draws
    documents: Int64Array  # (n,) document number in the split
    targets: Int64Array  # (n,) target length of that document in this pass
    a_range: Int64Array  # (n, 2)
    b_range: Int64Array  # (n, 2) the rest of the chunk
    is_random: npt.NDArray[np.bool_]  # (n,) B is to be replaced by a random one


def _chunks(shard: Shard, rules: PairRules, key: Key) -> _Chunks:
    """Asks every sentence where the next chunk would begin, and follows the answers."""
    edges = shard.token_base + shard.sentences.edges()
    borders = shard.documents.edges()  # first sentence of each document
    documents = np.repeat(np.arange(shard.num_documents), shard.documents.all_lengths())  # (S,)
    targets = _targets(shard.document_base + np.arange(shard.num_documents), rules, key)[documents]

    begins, tokens = np.arange(shard.num_sentences), edges[:-1]
    ends = np.searchsorted(edges, tokens + targets)  # first border at or past the target
    ends = np.minimum(ends, borders[1:][documents])
    counts = ends - begins
    if rules.form == "one_segment":
        a_ends = ends
    else:
        a_ends = (
            begins + 1 + integers(np.maximum(counts - 1, 1), *key, _Purpose.A_SENTENCES, tokens)
        )
    if rules.form == "pairs":
        is_random = (counts == 1) | (uniform(*key, _Purpose.IS_RANDOM, tokens) < 0.5)
    else:
        is_random = np.zeros(len(begins), dtype=bool)

    visited = _follow(np.where(is_random, a_ends, ends))
    middle = edges[a_ends[visited]]
    return _Chunks(
        tokens=tokens[visited],
        documents=shard.document_base + documents[visited],
        targets=targets[visited],
        a_range=np.column_stack([tokens[visited], middle]),
        b_range=np.column_stack([middle, edges[ends[visited]]]),
        is_random=is_random[visited],
    )


def _targets(documents: Int64Array, rules: PairRules, key: Key) -> Int64Array:
    """(D,) each document's target length: drawn once a document and pass, as in the original."""
    is_short = uniform(*key, _Purpose.IS_SHORT, documents) < rules.short_probability
    short = 2 + integers(rules.max_tokens - 1, *key, _Purpose.SHORT_LENGTH, documents)
    return np.where(is_short, short, rules.max_tokens)


def _follow(next_begins: Int64Array) -> Int64Array:
    """The sentences visited from 0 on; plain Python, since each step needs the one before."""
    successors: list[int] = next_begins.tolist()
    visited, sentence = [], 0
    while sentence < len(successors):
        visited.append(sentence)
        sentence = successors[sentence]
    return np.asarray(visited, dtype=np.int64)


def _random_seconds(
    corpus: Corpus, own_documents: Int64Array, wanted: Int64Array, key: Key, tokens: Int64Array
) -> Int64Array:
    """(n, 2) token ranges: from a random sentence of another document until `wanted` tokens.

    The document is drawn again while it is the chunk's own, ten times at most, as in the original.
    """
    documents = own_documents.copy()
    clashes = np.arange(len(documents))
    for attempt in range(TRIES_FOR_ANOTHER_DOCUMENT):
        documents[clashes] = integers(
            corpus.num_documents, *key, _Purpose.DOCUMENT, attempt, tokens[clashes]
        )
        clashes = clashes[documents[clashes] == own_documents[clashes]]
        if not clashes.size:
            break
    ranges = np.empty((len(documents), 2), dtype=np.int64)
    for shard_number, rows in _by_shard(corpus.shard_of_document(documents)):
        shard = corpus.shards[shard_number]
        local = documents[rows] - shard.document_base
        first = shard.documents.starts(local)
        counts = shard.documents.lengths(local)
        sentences = first + integers(counts, *key, _Purpose.SENTENCE, tokens[rows])
        ranges[rows] = fill(shard, sentences, first + counts, wanted[rows])
    return ranges


def _by_shard(shard_numbers: Int64Array) -> Iterator[tuple[int, Int64Array]]:
    """Yields each shard with the rows that need it, at most ROWS_AT_ONCE of them together."""
    order = np.argsort(shard_numbers, kind="stable")
    numbers, starts = np.unique(shard_numbers[order], return_index=True)
    for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True):
        for start in range(0, len(rows), ROWS_AT_ONCE):
            yield int(number), rows[start : start + ROWS_AT_ONCE]


def _truncate(
    a_range: Int64Array, b_range: Int64Array, max_tokens: int, key: Key, tokens: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Cuts tokens from the longer side, a tie from B, each from front or back by its own coin."""
    a_lengths, b_lengths = a_range[:, 1] - a_range[:, 0], b_range[:, 1] - b_range[:, 0]
    excess = np.maximum(a_lengths + b_lengths - max_tokens, 0)
    from_longer = np.minimum(excess, np.abs(a_lengths - b_lengths))
    by_turns = excess - from_longer  # once equal, B and A lose a token in turn
    a_cuts = np.where(a_lengths > b_lengths, from_longer, 0) + by_turns // 2
    b_cuts = np.where(a_lengths > b_lengths, 0, from_longer) + (by_turns + 1) // 2
    a_front = _heads(a_cuts, tokens, (*key, _Purpose.CUT_A))
    b_front = _heads(b_cuts, tokens, (*key, _Purpose.CUT_B))
    return (
        a_range + np.column_stack([a_front, a_front - a_cuts]),
        b_range + np.column_stack([b_front, b_front - b_cuts]),
    )


def _heads(flips: Int64Array, tokens: Int64Array, key: tuple[Counter, ...]) -> Int64Array:
    """(n,) heads among each row's coin flips; flip c is bit c % 64 of hash word c // 64."""
    heads = np.zeros(len(flips), dtype=np.int64)
    rows, word = np.flatnonzero(flips), 0
    while rows.size:
        flips_here = np.minimum(flips[rows] - 64 * word, 64).astype(np.uint64)
        bits = hash64(*key, word, tokens[rows]) << (np.uint64(64) - flips_here)
        heads[rows] += (
            np.unpackbits(bits.view(np.uint8)).reshape(-1, 64).sum(axis=1, dtype=np.int64)
        )
        word += 1
        rows = rows[flips[rows] > 64 * word]
    return heads
