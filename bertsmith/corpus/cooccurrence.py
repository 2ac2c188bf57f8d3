"""A corpus -> a vector for every token, from what stands beside it.

Tokens that stand among the same neighbours get nearby vectors. Counting takes seconds, where a
model learns the same from predictions in an hour on a small machine. Neighbours before, behind and
a few places away are counted apart, turned into positive pointwise mutual information, and reduced
to the vectors' width by a randomised singular value decomposition. It knows no model.

Source: Levy and Goldberg 2014, who show that word2vec factorises such a matrix; Levy, Goldberg and
Dagan 2015 for the exponents; Halko, Martinsson and Tropp 2011, algorithm 4.4.

Legend: V vocabulary, C neighbours that are counted, G groups of places, H width of a vector.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bertsmith.corpus.store import Corpus
from bertsmith.randomness import Stream, uniform

FloatArray = npt.NDArray[np.float32]

_PLACES = ((-1,), (1,), (-4, -3, -2, 2, 3, 4))
_MOST_NEIGHBOURS = 3_000
_MOST_CELLS = 1 << 27  # half a gigabyte of counts
_MOST_TOKENS = 1 << 26  # half a minute of counting
_CHUNK = 1 << 22
_TOKEN_BYTES = 40  # of what is held for a chunk's token while it is counted
_DRAW_BYTES, _DIRECTION_BYTES = 42, 16  # for a number of the first directions, and of later ones
_FEWEST = 5  # a token seen less often gets no vector
_DOUBT = 20.0  # neighbours of a token at which its information is halved in variance
_CONTEXT_EXPONENT = 0.75
_SINGULAR_EXPONENT = 0.5
_SPARE_DIRECTIONS = 32
_POWER_ITERATIONS = 3


def token_vectors(corpus: Corpus, width: int, seed: int) -> FloatArray:
    """(V, H) rows of length 1; a row of zeros for a token that was hardly seen.

    Counts at most 67 million tokens, of every shard the same share. The same corpus and seed give
    the same vectors on the same machine. Takes `counting_bytes` of memory.
    """
    information = _information(_neighbour_counts(corpus))
    vectors = _reduced(information, width, seed)
    vectors -= vectors.mean(axis=0)
    vectors[corpus.token_counts < _FEWEST] = 0.0
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.where(lengths > 0, lengths, 1.0)
    return vectors


def counting_bytes(corpus: Corpus, width: int) -> int:
    """The most memory that `token_vectors` holds beside the corpus, about: up to a gigabyte.

    All counts, and with them first a chunk of tokens, then what reduces them.
    """
    num_rows = len(corpus.token_counts)
    num_columns = len(_PLACES) * _num_neighbours(num_rows)
    directions = min(width + _SPARE_DIRECTIONS, num_rows, num_columns)
    counting = min(corpus.num_tokens, _CHUNK) * _TOKEN_BYTES
    drawing, reducing = _DRAW_BYTES * num_columns, _DIRECTION_BYTES * (num_rows + num_columns)
    cells = num_rows * num_columns * np.dtype(np.float32).itemsize
    return cells + max(counting, directions * max(drawing, reducing))


def _num_neighbours(vocab_size: int) -> int:
    """How many tokens are counted as neighbours, C."""
    return min(_MOST_NEIGHBOURS, vocab_size, _MOST_CELLS // (vocab_size * len(_PLACES)))


def _neighbour_counts(corpus: Corpus) -> FloatArray:
    """(V, G, C): how often each of the C most frequent tokens stood at each group's places."""
    counts = corpus.token_counts
    num_groups, most = len(_PLACES), _num_neighbours(len(counts))
    column = np.full(len(counts), -1, np.int64)
    column[np.argsort(-counts, kind="stable")[:most]] = np.arange(most)
    found = np.zeros(len(counts) * num_groups * most, np.float32)
    share = min(1.0, _MOST_TOKENS / max(1, corpus.num_tokens))
    for shard in corpus.shards:
        tokens = shard.tokens[: int(share * shard.num_tokens)]
        for start in range(0, len(tokens), _CHUNK):
            chunk = tokens[start : start + _CHUNK].astype(np.int64)
            _count_chunk(chunk, column, most, found)
    return found.reshape(len(counts), num_groups, most)


def _count_chunk(
    tokens: npt.NDArray[np.int64], column: npt.NDArray[np.int64], most: int, found: FloatArray
) -> None:
    """Adds the neighbours in one stretch of text to the flat (V * G * C) counts."""
    columns = column[tokens]
    for group, places in enumerate(_PLACES):
        for place in places:
            if abs(place) >= len(tokens):
                continue
            here = slice(max(0, -place), len(tokens) - max(0, place))
            there = slice(max(0, place), len(tokens) + min(0, place))
            is_counted = columns[there] >= 0
            rows = tokens[here][is_counted] * len(_PLACES) + group
            np.add.at(found, rows * most + columns[there][is_counted], np.float32(1))


def _information(counts: FloatArray) -> FloatArray:
    """(V, G, C) counts -> (V, G * C) positive pointwise mutual information, in the same memory."""
    of_token = counts.sum(axis=2, keepdims=True)  # (V, G, 1)
    of_neighbour = counts.sum(axis=0, keepdims=True) ** _CONTEXT_EXPONENT  # (1, G, C)
    of_neighbour /= np.maximum(of_neighbour.sum(axis=2, keepdims=True), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        counts /= of_token
        counts /= of_neighbour
        np.log(counts, out=counts)
    np.fmax(counts, 0.0, out=counts)  # of what is no number too
    counts *= np.sqrt(of_token / (of_token + _DOUBT))
    return counts.reshape(len(counts), -1)


def _reduced(matrix: FloatArray, width: int, seed: int) -> FloatArray:
    """(V, H): the rows in the matrix's first H singular directions, lengths tempered."""
    num_rows, num_columns = matrix.shape
    num_directions = min(width + _SPARE_DIRECTIONS, num_rows, num_columns)
    places = np.arange(num_columns * num_directions).reshape(num_columns, num_directions)
    start = (uniform(seed, Stream.INIT, places) - 0.5).astype(np.float32)
    basis = np.linalg.qr(matrix @ start)[0]
    for _ in range(_POWER_ITERATIONS):
        basis = np.linalg.qr(matrix @ np.linalg.qr(matrix.T @ basis)[0])[0]
    left, singular, _ = np.linalg.svd(basis.T @ matrix, full_matrices=False)
    scaled = left[:, :width] * singular[:width] ** _SINGULAR_EXPONENT
    vectors = np.zeros((num_rows, width), np.float32)
    vectors[:, : scaled.shape[1]] = basis @ scaled
    return vectors
