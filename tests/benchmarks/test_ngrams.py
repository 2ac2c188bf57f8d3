from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks import ngrams
from benchmarks.ngrams import Baselines, count
from bertsmith.corpus.store import Corpus
from bertsmith.randomness import integers
from tests.data.corpora import write_corpus

VOCAB_SIZE, MARK = 12, 12
SPECIAL = frozenset({0, 1})
Sentences = list[list[int]]


def test_counts_equal_a_walk_over_every_window(tmp_path: Path) -> None:
    documents, windows = _documents(), _windows()
    baselines = count(_corpus(tmp_path, documents), windows, SPECIAL)
    for context, counts in baselines.counts.items():
        plain = _plain_counts(documents, context)
        for question, window in enumerate(windows.tolist()):
            key = tuple(window[(-2, -1, 1, 2).index(offset)] for offset in context)
            expected = {token: plain[key, token] for token in range(VOCAB_SIZE)}
            token_ids, times = counts.of(baselines.rows[context][question])
            found = dict(zip(token_ids.tolist(), times.tolist(), strict=True))
            assert found == {token: seen for token, seen in expected.items() if seen}


def test_chunks_and_shards_change_no_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents, windows = _documents(), _windows()
    whole = count(_corpus(tmp_path / "one", documents), windows, SPECIAL)
    monkeypatch.setattr(ngrams, "_CHUNK_TOKENS", 7)
    corpus = _corpus(tmp_path / "many", documents, shard_tokens=40)
    assert len(corpus.shards) > 3
    parts = count(corpus, windows, SPECIAL)
    for context in whole.counts:
        for name, values in asdict(whole.counts[context]).items():
            np.testing.assert_array_equal(values, asdict(parts.counts[context])[name])


def test_probabilities_equal_witten_and_bell_written_out(tmp_path: Path) -> None:
    documents, windows = _documents(), _windows()
    baselines = count(_corpus(tmp_path, documents), windows, SPECIAL)
    for question, (far, left, right, beyond) in enumerate(windows.tolist()):
        unigram = _unigrams(documents)
        by_left = _witten_bell(documents, (-1,), (left,), unigram)
        by_left = _witten_bell(documents, (-2, -1), (far, left), by_left)
        by_right = _witten_bell(documents, (1,), (right,), unigram)
        by_right = _witten_bell(documents, (1, 2), (right, beyond), by_right)
        sides = [
            a * b / u if u else 0.0 for a, b, u in zip(by_left, by_right, unigram, strict=True)
        ]
        sides = [each / sum(sides) for each in sides]
        both = _witten_bell(documents, (-1, 1), (left, right), sides)
        found = baselines.probabilities(question)
        np.testing.assert_allclose(found["unigram"], unigram, rtol=1e-12)
        np.testing.assert_allclose(found["trigram"], by_left, rtol=1e-12)
        np.testing.assert_allclose(found["trigram_both_sides"], both, rtol=1e-12)


def test_probabilities_sum_to_one_and_special_tokens_have_none(tmp_path: Path) -> None:
    windows = _windows()
    baselines = count(_corpus(tmp_path, _documents()), windows, SPECIAL)
    for question in range(len(windows)):
        for probabilities in baselines.probabilities(question).values():
            assert probabilities.sum() == pytest.approx(1.0)
            assert not probabilities[list(SPECIAL)].any()


def test_the_right_side_decides_where_the_left_cannot(tmp_path: Path) -> None:
    documents = [[[5, 6, 7]] * 9 + [[5, 8, 9]]]
    baselines = count(_corpus(tmp_path, documents), np.array([[MARK, 5, 9, MARK]]), SPECIAL)
    found = baselines.probabilities(0)
    assert _best(found["trigram"]) == 6
    assert _best(found["trigram_both_sides"]) == 8


def test_contexts_never_seen_leave_the_unigrams(tmp_path: Path) -> None:
    documents = [[[5, 6, 6, 7]]]
    baselines: Baselines = count(
        _corpus(tmp_path, documents), np.array([[10, 11, 10, 11]]), SPECIAL
    )
    for probabilities in baselines.probabilities(0).values():
        np.testing.assert_allclose(probabilities[[5, 6, 7]], [0.25, 0.5, 0.25])


def _documents() -> list[Sentences]:
    """Twelve documents of sentences of 1 to 9 tokens; skewed, so that contexts come back."""
    documents = []
    for document in range(12):
        lengths = integers(9, 1, document, np.arange(8)) + 1
        documents.append(
            [
                np.minimum(
                    integers(VOCAB_SIZE, 2, document, sentence, np.arange(length)),
                    integers(VOCAB_SIZE, 3, document, sentence, np.arange(length)),
                ).tolist()
                for sentence, length in enumerate(lengths.tolist())
            ]
        )
    return documents


def _windows() -> np.ndarray:
    drawn = integers(VOCAB_SIZE, 4, np.arange(100)).reshape(25, 4) // 2
    ends = np.array([[MARK, MARK, 2, 3], [2, 3, MARK, MARK], [MARK, 2, 3, MARK], [MARK] * 4])
    return np.concatenate([drawn, drawn[:5], ends])


def _corpus(directory: Path, documents: list[Sentences], shard_tokens: int = 1 << 24) -> Corpus:
    write_corpus(directory, {"train": documents}, vocab_size=VOCAB_SIZE, shard_tokens=shard_tokens)
    return Corpus.open(directory)


def _plain_counts(documents: list[Sentences], context: tuple[int, ...]) -> Counter:
    counts: Counter = Counter()
    for document in documents:
        for sentence in document:
            marked = [MARK, MARK, *sentence, MARK, MARK]
            for place in range(2, len(marked) - 2):
                if marked[place] not in SPECIAL:
                    counts[tuple(marked[place + n] for n in context), marked[place]] += 1
    return counts


def _unigrams(documents: list[Sentences]) -> list[float]:
    counts = _plain_counts(documents, ())
    return [counts[(), token] / counts.total() for token in range(VOCAB_SIZE)]


def _witten_bell(
    documents: list[Sentences], context: tuple[int, ...], key: tuple[int, ...], lower: list[float]
) -> list[float]:
    counts = _plain_counts(documents, context)
    here = [counts[key, token] for token in range(VOCAB_SIZE)]
    different = sum(each > 0 for each in here)
    if not different:
        return lower
    return [
        (each + different * below) / (sum(here) + different)
        for each, below in zip(here, lower, strict=True)
    ]


def _best(probabilities: np.ndarray) -> int:
    return int(probabilities.argmax())
