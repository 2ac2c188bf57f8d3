"""Vectors counted from a text: what stands among the same neighbours is near."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from bertsmith.corpus import build, cooccurrence
from bertsmith.corpus.build_rules import BuildRules
from bertsmith.corpus.cooccurrence import counting_bytes, token_vectors
from bertsmith.corpus.store import Corpus
from bertsmith.randomness import integers
from bertsmith.reading.documents import find_sources
from bertsmith.text.rules import SPECIAL_TOKENS
from bertsmith.text.tokenizer import Tokenizer

ANIMALS = ("cat", "dog", "horse", "goat")
COLOURS = ("red", "blue", "green", "black")
VERBS = ("sees", "likes", "follows", "finds")
RARE = "zebra"
VOCABULARY = (*SPECIAL_TOKENS, "the", ".", *ANIMALS, *COLOURS, *VERBS, RARE, "never")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """`the red cat sees the blue dog .`, many times, and one rare animal."""
    folder = tmp_path_factory.mktemp("cooccurrence")
    draws = integers(4, 1, np.arange(5 * 3_000)).reshape(-1, 5).tolist()
    lines = [
        f"the {COLOURS[a]} {ANIMALS[b]} {VERBS[c]} the {COLOURS[d]} {ANIMALS[e]} ."
        for a, b, c, d, e in draws
    ]
    lines[7] = f"the red {RARE} sees the blue dog ."
    documents = ["\n".join(lines[start : start + 10]) for start in range(0, len(lines), 10)]
    (folder / "text.txt").write_text("\n\n".join(documents))
    rules = BuildRules(held_out=0.0, shard_tokens=5_000)
    build.build(
        find_sources([folder / "text.txt"]), Tokenizer(VOCABULARY), folder / "corpus", rules
    )
    return Corpus.open(folder / "corpus")


def row(token: str) -> int:
    return VOCABULARY.index(token)


def test_what_stands_among_the_same_neighbours_is_nearest(corpus: Corpus) -> None:
    vectors = token_vectors(corpus, 8, seed=0)
    near = vectors @ vectors.T
    for kind in (ANIMALS, COLOURS, VERBS):
        same = [row(token) for token in kind]
        other = [row(t) for t in (*ANIMALS, *COLOURS, *VERBS) if t not in kind]
        assert near[np.ix_(same, same)].min() > near[np.ix_(same, other)].max()


def test_vectors_are_of_length_one_and_those_of_hardly_seen_tokens_zero(corpus: Corpus) -> None:
    lengths = np.linalg.norm(token_vectors(corpus, 8, seed=0), axis=1)
    unseen = [row(token) for token in (*SPECIAL_TOKENS, RARE, "never")]
    assert not lengths[unseen].any()
    np.testing.assert_allclose(np.delete(lengths, unseen), 1.0, rtol=1e-5)


def test_a_width_beyond_the_counts_is_filled_with_zeros(corpus: Corpus) -> None:
    vectors = token_vectors(corpus, 256, seed=0)
    assert vectors.shape == (len(VOCABULARY), 256)
    assert np.isfinite(vectors).all()


def test_vectors_are_a_function_of_corpus_and_seed(corpus: Corpus) -> None:
    first, again, other = (token_vectors(corpus, 8, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    # Another start of the decomposition finds the same directions, up to their signs.
    np.testing.assert_allclose(first @ first.T, other @ other.T, atol=1e-2)


def test_neighbours_are_counted_where_they_stand(corpus: Corpus) -> None:
    counts = cooccurrence._neighbour_counts(corpus)
    column = {int(r): c for c, r in enumerate(np.argsort(-corpus.token_counts, kind="stable"))}
    tokens = np.concatenate([np.asarray(shard.tokens) for shard in corpus.shards]).tolist()
    shard_ends = {shard.token_base for shard in corpus.shards}
    expected = np.zeros_like(counts)
    for place, token in enumerate(tokens):
        for group, offsets in enumerate(cooccurrence._PLACES):
            for offset in offsets:
                other = place + offset
                low, high = min(place, other), max(place, other)
                if low < 0 or high >= len(tokens) or any(low < e <= high for e in shard_ends):
                    continue
                expected[token, group, column[tokens[other]]] += 1
    np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("length", range(7))
def test_the_last_few_tokens_of_a_shard_are_counted_too(length: int) -> None:
    tokens = np.arange(length)
    found = np.zeros(7 * 3 * 7, np.float32)
    cooccurrence._count_chunk(tokens, np.arange(7), 7, found)
    pairs = np.argwhere(found.reshape(7, 3, 7))
    distances = {(int(a), int(b)): abs(int(a) - int(b)) for a, _, b in pairs}
    expected = {(a, b): abs(a - b) for a in range(length) for b in range(length)}
    assert distances == {pair: far for pair, far in expected.items() if 0 < far <= 4}


def test_memory_is_bounded_for_large_vocabularies(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooccurrence, "_MOST_CELLS", 5 * 3 * len(VOCABULARY))
    assert cooccurrence._neighbour_counts(corpus).shape == (len(VOCABULARY), 3, 5)
    assert np.isfinite(token_vectors(corpus, 8, seed=0)).all()


def test_every_shard_gives_the_same_share_of_a_large_text(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cooccurrence._neighbour_counts(corpus).sum()
    monkeypatch.setattr(cooccurrence, "_MOST_TOKENS", corpus.num_tokens // 4)
    assert cooccurrence._neighbour_counts(corpus).sum() == pytest.approx(whole / 4, rel=0.01)


@pytest.mark.parametrize(("vocab_size", "width"), [(300, 8), (1_000, 128), (2_000, 64)])
def test_counting_holds_what_is_said_beforehand(
    vocab_size: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cooccurrence, "_MOST_NEIGHBOURS", 1_000)  # half of the largest vocabulary
    ids = integers(5, 1, np.arange(200_000)) % vocab_size
    shard = SimpleNamespace(tokens=ids.astype(np.uint16), num_tokens=len(ids))
    told = SimpleNamespace(
        token_counts=np.bincount(ids, minlength=vocab_size), num_tokens=len(ids), shards=[shard]
    )
    corpus = cast(Corpus, told)
    tracemalloc.start()
    token_vectors(corpus, width, seed=0)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.6 < most / counting_bytes(corpus, width) < 1.1


def test_what_is_made_of_counts_takes_their_place() -> None:
    counts = np.zeros((1_000, 3, 1_000), np.float32)
    counts[::2, :, ::3] = 2.0
    counts[1, 0, 3] = 5.0
    tracemalloc.start()
    information = cooccurrence._information(counts)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < counts.nbytes / 4
    assert np.isfinite(information).all()
    assert information.min() == 0.0 < information[1, 3]
