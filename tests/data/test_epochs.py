"""Epochs: what one holds, its order, and reading from any place."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.data import epochs
from bertsmith.data.epochs import Epochs
from bertsmith.data.pairs import PairRules
from tests.data.in_memory import InMemoryCorpus, articles

RULES = PairRules(sequence_length=64)


def corpus_of(shards: int, documents: int = 12) -> InMemoryCorpus:
    return InMemoryCorpus([articles(documents, 10, 100 + n, longest=20) for n in range(shards)])


def shards_of(corpus: InMemoryCorpus, rows: np.ndarray) -> np.ndarray:
    bases = [shard.token_base for shard in corpus.shards]
    return np.searchsorted(bases, rows[:, 0], side="right") - 1


@pytest.mark.parametrize("shards", [1, 3, 9, 13])
def test_every_shard_gives_its_quota_to_every_epoch(shards: int) -> None:
    corpus = corpus_of(shards)
    reader = Epochs(corpus, RULES, 0, seed=1)
    for epoch in range(4):
        rows = reader.rows(epoch * reader.rows_per_epoch, reader.rows_per_epoch)
        counts = np.bincount(shards_of(corpus, rows), minlength=shards)
        assert np.array_equal(counts, reader.measure.quotas)


def test_rows_are_the_same_from_any_place_in_any_order() -> None:
    corpus = corpus_of(6)
    whole = Epochs(corpus, RULES, 0, seed=1)
    expected = whole.rows(0, 3 * whole.rows_per_epoch)
    reader = Epochs(corpus, RULES, 0, seed=1)
    places = list(range(0, len(expected) - 37, 37))
    for first in places[::-2] + places[1::2]:
        np.testing.assert_array_equal(reader.rows(first, 37), expected[first : first + 37])


def test_epochs_draw_other_pairs_in_another_order() -> None:
    corpus = corpus_of(2)
    reader = Epochs(corpus, RULES, 0, seed=1)
    first, second = (reader.rows(n * reader.rows_per_epoch, reader.rows_per_epoch) for n in (0, 1))
    assert not np.array_equal(first[:20, 0], second[:20, 0])
    shared = {tuple(row) for row in first[:, :4]} & {tuple(row) for row in second[:, :4]}
    assert len(shared) < 0.5 * len(first)


def test_rows_of_an_epoch_are_shuffled_across_the_group() -> None:
    corpus = corpus_of(4)
    reader = Epochs(corpus, RULES, 0, seed=1)
    rows = reader.rows(0, reader.rows_per_epoch)
    order = np.argsort(np.argsort(rows[:, 0], kind="stable"), kind="stable")
    # Rank correlation of place and text order: mean 0, deviation 1 / sqrt(n - 1).
    correlation = np.corrcoef(np.arange(len(rows)), order)[0, 1]
    assert abs(correlation) < 5 / np.sqrt(len(rows) - 1)


def test_every_document_takes_part_in_a_pass() -> None:
    corpus = corpus_of(1, documents=100)
    reader = Epochs(corpus, RULES, 0, seed=1)
    (shard,) = corpus.shards
    starts = shard.sentences.edges()[shard.documents.edges()]
    seen = np.zeros(100, dtype=bool)
    for epoch in range(2):
        rows = reader.rows(epoch * reader.rows_per_epoch, reader.rows_per_epoch)
        seen[np.searchsorted(starts, rows[:, 0], side="right") - 1] = True
    assert seen.all()


def test_fixed_copies_come_back_in_another_order() -> None:
    reader = Epochs(corpus_of(5), RULES, 3, seed=1)
    size = reader.rows_per_epoch
    passes = [reader.rows(epoch * size, size) for epoch in range(5)]
    for epoch in (0, 1):
        first, again = passes[epoch], passes[epoch + 3]
        assert not np.array_equal(first, again)
        assert sorted(map(tuple, first.tolist())) == sorted(map(tuple, again.tolist()))
    assert sorted(map(tuple, passes[0].tolist())) != sorted(map(tuple, passes[1].tolist()))


def test_starting_draws_at_most_eight_shards_and_reading_keeps_two_groups(monkeypatch) -> None:
    drawn: list[tuple[int, int]] = []
    plain = epochs.draw

    def counted(shard, corpus, rules, seed, pass_number):
        drawn.append((shard.token_base, pass_number))
        return plain(shard, corpus, rules, seed, pass_number)

    monkeypatch.setattr(epochs, "draw", counted)
    corpus = corpus_of(40)
    reader = Epochs(corpus, RULES, 0, seed=1)
    assert len(drawn) == 8
    drawn.clear()
    for first in range(0, 2 * reader.rows_per_epoch - 16, 16):
        reader.rows(first, 16)
    assert len(drawn) == len(set(drawn))  # nothing is drawn twice
    assert len([one for one in drawn if one[1] < epochs.FURTHER_PASS]) == 2 * 40
    drawn.clear()
    reader.rows(0, 16)
    assert 4 <= len(drawn) <= 8  # the first group was let go


def test_a_quota_measured_on_eight_shards_is_near_the_true_number_of_rows() -> None:
    corpus = corpus_of(24, documents=60)
    estimated = Epochs(corpus, RULES, 0, seed=1).rows_per_epoch
    true = sum(len(epochs.draw(shard, corpus, RULES, 1, 5)) for shard in corpus.shards)
    # About 200 rows a shard; a third of the shards measured: about two per cent of deviation.
    assert abs(estimated / true - 1) < 0.08


def test_a_corpus_of_one_short_document_still_has_epochs() -> None:
    corpus = InMemoryCorpus([[[3, 4]]])
    reader = Epochs(corpus, PairRules(sequence_length=8, form="one_segment"), 0, seed=1)
    rows = reader.rows(0, 7)
    assert reader.rows_per_epoch >= 1
    assert len(rows) == 7
