"""Pairs, held row for row against a plain walk through one document at a time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.corpus.store import Corpus
from bertsmith.data.pairs import PairRules, draw
from bertsmith.randomness import Stream, hash64, integers, uniform
from tests.data.corpora import write_corpus
from tests.data.in_memory import InMemoryCorpus, articles

IS_SHORT, SHORT_LENGTH, A_SENTENCES, IS_RANDOM, DOCUMENT, SENTENCE, CUT_A, CUT_B = range(1, 9)


def walk(corpus: InMemoryCorpus, shard_number: int, rules: PairRules, seed: int, pass_number: int):
    """The plain walk of the original: one document, one chunk, one token at a time.

    Works on token numbers instead of tokens; draws the same keyed numbers as `pairs.draw`.
    """
    documents = list(documents_of(corpus))
    shard = corpus.shards[shard_number]
    key = (seed, Stream.PAIRS, rules.sequence_length, pass_number)
    rows = []
    for number in range(shard.document_base, shard.document_base + shard.num_documents):
        rows += walk_document(documents, number, rules, key)
    return np.array(rows, dtype=np.int64).reshape(-1, 5)


def documents_of(corpus: InMemoryCorpus) -> Iterator[list[list[int]]]:
    """Every document as its sentences, each the list of its token numbers."""
    token = 0
    for shard in corpus.shards:
        for first, end in pairwise(shard.documents.edges().tolist()):
            document = []
            for length in shard.sentences.all_lengths()[first:end].tolist():
                document.append(list(range(token, token + length)))
                token += length
            yield document


def walk_document(documents, number, rules, key):
    max_tokens = rules.sequence_length - (2 if rules.form == "one_segment" else 3)
    target = max_tokens
    if uniform(*key, IS_SHORT, number) < rules.short_probability:
        target = 2 + int(integers(max_tokens - 1, *key, SHORT_LENGTH, number))
    document, rows, chunk, i = documents[number], [], [], 0
    while i < len(document):
        chunk.append(document[i])
        if i == len(document) - 1 or sum(map(len, chunk)) >= target:
            token = chunk[0][0]
            num_a = 1
            if len(chunk) >= 2:
                num_a = 1 + int(integers(len(chunk) - 1, *key, A_SENTENCES, token))
            if rules.form == "one_segment":
                num_a = len(chunk)
            a = [t for sentence in chunk[:num_a] for t in sentence]
            is_random = rules.form == "pairs" and (
                len(chunk) == 1 or bool(uniform(*key, IS_RANDOM, token) < 0.5)
            )
            if is_random:
                b = random_second(documents, number, target - len(a), key, token)
                i -= len(chunk) - num_a
            else:
                b = [t for sentence in chunk[num_a:] for t in sentence]
            place = a[-1] + 1  # where an empty B stands
            truncate(a, b, max_tokens, key, token)
            place = place if not b else b[0]
            rows.append([a[0], a[-1] + 1, place, place + len(b), int(is_random)])
            chunk = []
        i += 1
    return rows


def random_second(documents, number, wanted, key, token):
    for attempt in range(10):
        other = int(integers(len(documents), *key, DOCUMENT, attempt, token))
        if other != number:
            break
    start = int(integers(len(documents[other]), *key, SENTENCE, token))
    b = []
    for sentence in documents[other][start:]:
        b += sentence
        if len(b) >= wanted:
            break
    return b


def truncate(a, b, max_tokens, key, token):
    flips = {CUT_A: 0, CUT_B: 0}
    while len(a) + len(b) > max_tokens:
        side, purpose = (a, CUT_A) if len(a) > len(b) else (b, CUT_B)
        word, bit = divmod(flips[purpose], 64)
        is_front = int(hash64(*key, purpose, word, token)) >> bit & 1
        flips[purpose] += 1
        if is_front:
            del side[0]
        else:
            side.pop()


@pytest.mark.parametrize("form", ["pairs", "consecutive_pair", "one_segment"])
@pytest.mark.parametrize("sequence_length", [8, 32, 128, 512])
def test_rows_equal_the_plain_walk(form: str, sequence_length: int) -> None:
    corpus = InMemoryCorpus([articles(20, 12, 1), articles(20, 3, 2), articles(4, 90, 3)])
    rules = PairRules(sequence_length=sequence_length, form=form, short_probability=0.3)
    for shard in range(3):
        rows = draw(corpus.shards[shard], corpus, rules, seed=7, pass_number=2)
        np.testing.assert_array_equal(rows, walk(corpus, shard, rules, 7, 2))


@settings(max_examples=60)
@given(
    shards=st.lists(
        st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=9), min_size=1, max_size=6),
        min_size=1,
        max_size=3,
    ),
    sequence_length=st.integers(8, 64),
    short_probability=st.sampled_from([0.0, 0.1, 1.0]),
    form=st.sampled_from(["pairs", "consecutive_pair", "one_segment"]),
    seed=st.integers(0, 2**40),
)
def test_rows_equal_the_plain_walk_on_any_small_corpus(
    shards, sequence_length, short_probability, form, seed
) -> None:
    corpus = InMemoryCorpus(shards)
    rules = PairRules(
        sequence_length=sequence_length, short_probability=short_probability, form=form
    )
    for number, shard in enumerate(corpus.shards):
        rows = draw(shard, corpus, rules, seed, pass_number=0)
        np.testing.assert_array_equal(rows, walk(corpus, number, rules, seed, 0))


def test_rows_of_a_corpus_on_disk_equal_those_in_memory(tmp_path) -> None:
    shard = articles(200, 20, 4)
    documents = [[[7] * length for length in document] for document in shard]
    on_disk = Corpus.open(
        write_corpus(tmp_path / "corpus", {"train": documents}, shard_tokens=9000)
    )
    sizes = [facts.num_documents for facts in on_disk.shards]
    assert len(sizes) > 3
    ends = np.cumsum(sizes).tolist()
    in_memory = InMemoryCorpus(
        [shard[end - size : end] for size, end in zip(sizes, ends, strict=True)]
    )
    for there, here in zip(on_disk.shards, in_memory.shards, strict=True):
        np.testing.assert_array_equal(
            draw(there, on_disk, PairRules(), 3, 1), draw(here, in_memory, PairRules(), 3, 1)
        )


def test_impossible_rules_are_refused() -> None:
    with pytest.raises(ValueError, match="sequence_length must be at least 8, found 7"):
        PairRules(sequence_length=7)
    with pytest.raises(ValueError, match="short_probability must be between 0 and 1"):
        PairRules(short_probability=1.5)


def test_draws_differ_by_seed_pass_and_length_and_repeat_to_the_bit() -> None:
    corpus = InMemoryCorpus([articles(50, 30, 13)])
    shard = corpus.shards[0]
    first = draw(shard, corpus, PairRules(), 1, 1)
    assert np.array_equal(first, draw(shard, corpus, PairRules(), 1, 1))
    for rules, seed, pass_number in (
        (PairRules(), 2, 1),
        (PairRules(), 1, 2),
        (PairRules(sequence_length=127), 1, 1),
    ):
        other = draw(shard, corpus, rules, seed, pass_number)
        assert not np.array_equal(first[:50], other[:50])


def test_a_lonely_document_gives_its_own_sentences_after_ten_tries() -> None:
    corpus = InMemoryCorpus([[[30] * 50]])
    rows = draw(corpus.shards[0], corpus, PairRules(), 12, 0)
    assert rows[:, 4].any()
    assert rows[:, :4].max() <= 1500
