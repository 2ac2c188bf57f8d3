"""The rules of pairs, each as a distribution, beside a restatement that shares no draw."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from bertsmith.data.pairs import PairRules, draw
from bertsmith.randomness import integers
from tests.data.in_memory import InMemoryCorpus, articles


def original(document_lengths: list[list[int]], max_tokens: int, rng: Random) -> list[tuple]:
    """The original's pairs over one pass, on lengths alone and with a generator of its own.

    Independent of bertsmith's draws: (tokens of A, tokens of B, is_random) of every instance.
    """
    rows = []
    for number, document in enumerate(document_lengths):
        target = rng.randint(2, max_tokens) if rng.random() < 0.1 else max_tokens
        chunk, i = [], 0
        while i < len(document):
            chunk.append(document[i])
            if i == len(document) - 1 or sum(chunk) >= target:
                num_a = rng.randint(1, len(chunk) - 1) if len(chunk) >= 2 else 1
                a, b = sum(chunk[:num_a]), sum(chunk[num_a:])
                is_random = len(chunk) == 1 or rng.random() < 0.5
                if is_random:
                    b = random_length(document_lengths, number, target - a, rng)
                    i -= len(chunk) - num_a
                rows.append((*truncated(a, b, max_tokens), is_random))
                chunk = []
            i += 1
    return rows


def random_length(documents: list[list[int]], number: int, wanted: int, rng: Random) -> int:
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != number:
            break
    b = 0
    for length in documents[other][rng.randint(0, len(documents[other]) - 1) :]:
        b += length
        if b >= wanted:
            break
    return b


def truncated(a: int, b: int, max_tokens: int) -> tuple[int, int]:
    while a + b > max_tokens:
        if a > b:
            a -= 1
        else:
            b -= 1
    return a, b


@pytest.mark.parametrize(
    ("sentences", "expected"), [(1, 1.00), (2, 0.67), (3, 0.62), (10, 0.58), (80, 0.54)]
)
def test_not_next_is_above_half_by_sentences_a_document(sentences: int, expected: float) -> None:
    num = 60_000 // sentences
    numbers = np.arange(num)[:, None], np.arange(sentences)
    documents = (1 + integers(39, 11, *numbers)).tolist()  # 20 tokens a sentence on average
    corpus = InMemoryCorpus([documents])
    rows = draw(corpus.shards[0], corpus, PairRules(), seed=1, pass_number=0)
    plain = np.array(original(documents, 125, Random(5)))
    share, plain_share = rows[:, 4].mean(), plain[:, 2].mean()
    # Rows of a document depend on each other a little, which the bound of five deviations covers.
    deviation = np.sqrt(0.25 / len(rows) + 0.25 / len(plain))
    assert abs(share - plain_share) < 5 * deviation
    assert abs(share - expected) < 0.015
    assert abs(len(rows) / len(plain) - 1) < 0.03


@pytest.mark.parametrize("sequence_length", [128, 512])
def test_lengths_are_distributed_as_the_original_s(sequence_length: int) -> None:
    documents = articles(600, 40, 12, longest=50)
    corpus = InMemoryCorpus([documents])
    rules = PairRules(sequence_length=sequence_length)
    rows = np.concatenate([draw(corpus.shards[0], corpus, rules, 2, p) for p in range(2)])
    rng = Random(6)
    plain = np.array([row for _ in range(2) for row in original(documents, rules.max_tokens, rng)])
    a, b = rows[:, 1] - rows[:, 0], rows[:, 3] - rows[:, 2]
    for found, expected in ((a, plain[:, 0]), (b, plain[:, 1]), (a + b, plain[:, :2].sum(axis=1))):
        bins = np.arange(sequence_length + 1)
        difference = np.abs(cumulative(found, bins) - cumulative(expected, bins)).max()
        # Kolmogorov and Smirnov's two-sample statistic at one in a million, doubled, because the
        # rows of one document share a target length.
        assert difference < 2 * 2.7 * np.sqrt(1 / len(found) + 1 / len(expected))


def cumulative(lengths: np.ndarray, bins: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.sort(lengths), bins, side="right") / len(lengths)


def chi_square_is_plausible(counts: np.ndarray) -> bool:
    """True when counts fit a uniform distribution to five standard deviations of chi square."""
    expected, freedom = counts.mean(), len(counts) - 1
    chi_square = ((counts - expected) ** 2 / expected).sum()
    return bool(abs(chi_square - freedom) < 5 * np.sqrt(2 * freedom))


def test_the_target_is_drawn_once_a_document_short_with_probability_a_tenth() -> None:
    # Sentences of one token, whole chunks as A: every row but a document's last shows its target.
    num = 3000
    corpus = InMemoryCorpus([[[1] * 300] * num])
    rows = draw(corpus.shards[0], corpus, PairRules(form="one_segment"), 3, 0)
    lengths, documents = rows[:, 1] - rows[:, 0], rows[:, 0] // 300
    is_full = rows[:, 1] % 300 != 0
    targets = [np.unique(lengths[is_full & (documents == n)]) for n in range(num)]
    assert all(len(target) == 1 for target in targets)
    short = np.concatenate(targets)[np.concatenate(targets) < 126]
    share = 0.1 * 124 / 125  # a short target may be the full one
    assert abs(len(short) / num - share) < 5 * np.sqrt(share * (1 - share) / num)
    assert short.min() >= 2
    assert chi_square_is_plausible(np.bincount((short - 2) // 4)[:31])


def test_a_takes_one_to_all_but_one_of_the_chunk_s_sentences() -> None:
    corpus = InMemoryCorpus([[[5] * 25 * 20] * 200])  # 25 sentences fill a chunk of 125 tokens
    rules = PairRules(form="consecutive_pair", short_probability=0.0)
    rows = draw(corpus.shards[0], corpus, rules, 4, 0)
    counts = np.bincount((rows[:, 1] - rows[:, 0]) // 5)
    assert len(rows) == 4000
    assert counts[0] == 0
    assert len(counts) == 25
    assert chi_square_is_plausible(counts[1:])


def test_b_is_random_half_of_the_time_and_always_in_a_chunk_of_one_sentence() -> None:
    corpus = InMemoryCorpus([[[5] * 500] * 60, [[200] * 500] * 60])
    many, one = (draw(shard, corpus, PairRules(), 5, 0) for shard in corpus.shards)
    # Short targets of at most 5 tokens make one-sentence chunks in the first shard too.
    assert one[:, 4].all()
    share = many[:, 4].mean()
    assert 0.5 - 5 * 0.5 / np.sqrt(len(many)) < share < 0.52 + 5 * 0.5 / np.sqrt(len(many))


def test_unused_sentences_go_back_and_begin_the_next_row() -> None:
    corpus = InMemoryCorpus([[[5] * 400] * 20])
    rows = draw(corpus.shards[0], corpus, PairRules(short_probability=0.0), 6, 0)
    used_up_to = np.where(rows[:, 4] == 1, rows[:, 1], rows[:, 3])
    assert rows[0, 0] == 0
    assert np.array_equal(rows[1:, 0], used_up_to[:-1])
    assert used_up_to[-1] == corpus.num_tokens
    consecutive = rows[:, 4] == 0
    assert np.array_equal(rows[consecutive, 1], rows[consecutive, 2])


def test_b_always_follows_a_where_no_next_sentence_is_asked() -> None:
    corpus = InMemoryCorpus([[[5] * 400] * 20])
    rows = draw(corpus.shards[0], corpus, PairRules(form="consecutive_pair"), 6, 0)
    assert not rows[:, 4].any()
    has_b = rows[:, 3] > rows[:, 2]
    assert has_b.mean() > 0.9
    assert np.array_equal(rows[has_b, 1], rows[has_b, 2])


def test_another_document_is_tried_ten_times() -> None:
    # Of two documents a try misses the other one half of the time; sentences of 200 tokens are
    # chunks of one, so every B is random.
    corpus = InMemoryCorpus([[[200] * 500] * 2])
    passes = [draw(corpus.shards[0], corpus, PairRules(), 8, number) for number in range(200)]
    rows = np.concatenate(passes)
    share, expected = (rows[:, 0] // 100_000 == rows[:, 2] // 100_000).mean(), 2.0**-10
    assert rows[:, 4].all()
    assert abs(share - expected) < 5 * np.sqrt(expected / len(rows))


def test_random_b_comes_from_every_other_document_alike_and_from_any_sentence() -> None:
    corpus = InMemoryCorpus([[[1] * 100] * 10, [[1] * 100] * 10])
    found = [
        draw(shard, corpus, PairRules(short_probability=0.0), 7, p)
        for p in range(150)
        for shard in corpus.shards
    ]
    rows = np.concatenate(found)
    rows = rows[rows[:, 4] == 1]
    own, other, sentence = rows[:, 0] // 100, rows[:, 2] // 100, rows[:, 2] % 100
    assert not (own == other).any()
    assert chi_square_is_plausible(np.bincount((other - own) % 20)[1:])
    assert chi_square_is_plausible(np.bincount(sentence, minlength=100))


def test_a_random_b_is_filled_to_the_target_by_whole_sentences() -> None:
    corpus = InMemoryCorpus([[[4] * 200] * 50])
    rows = draw(corpus.shards[0], corpus, PairRules(short_probability=0.0), 8, 0)
    rows = rows[rows[:, 4] == 1]
    a, b = rows[:, 1] - rows[:, 0], rows[:, 3] - rows[:, 2]
    stops_early = rows[:, 3] % 800 == 0  # at its document's end, or cut by truncation below
    assert ((a + b == 125) | stops_early).all()
    assert (a + b == 125).mean() > 0.8


def test_truncation_trims_the_longer_side_and_a_tie_cuts_b() -> None:
    corpus = InMemoryCorpus([[[300], [400], [80], [20]] * 100])
    rows = draw(corpus.shards[0], corpus, PairRules(short_probability=0.0), 9, 0)
    a, b = rows[:, 1] - rows[:, 0], rows[:, 3] - rows[:, 2]
    whole = np.array([300, 400, 80, 20])[np.arange(len(rows)) % 4]
    assert len(rows) == 400
    both_long = (whole > 63) & (b > 20)
    assert set(zip(a[both_long].tolist(), b[both_long].tolist(), strict=True)) == {(63, 62)}
    assert set(a[whole == 20]) == {20}
    assert set(a[(whole > 80) & (b == 20)]) == {105}


def test_every_cut_token_goes_from_front_or_back_by_a_fair_coin() -> None:
    corpus = InMemoryCorpus([[[500]] * 2000])
    rows = draw(corpus.shards[0], corpus, PairRules(short_probability=0.0), 10, 0)
    for start, kept in ((rows[:, 0], 63), (rows[:, 2], 62)):
        front, flips = start % 500, 500 - kept
        # Binomial(flips, 1/2): mean flips / 2, variance flips / 4.
        assert abs(front.mean() - flips / 2) < 5 * np.sqrt(flips / 4 / len(rows))
        assert abs(front.var() / (flips / 4) - 1) < 5 * np.sqrt(2 / len(rows))


def test_no_row_is_longer_than_the_sequence_and_no_segment_is_empty() -> None:
    for length in (8, 9, 128, 512):
        corpus = InMemoryCorpus([articles(100, 5, length, longest=700)])
        rows = draw(corpus.shards[0], corpus, PairRules(sequence_length=length), 11, 0)
        a, b = rows[:, 1] - rows[:, 0], rows[:, 3] - rows[:, 2]
        assert (a + b).max() == length - 3
        assert min(a.min(), b.min()) >= 1
        assert len(np.unique(rows[:, 0])) == len(rows)
