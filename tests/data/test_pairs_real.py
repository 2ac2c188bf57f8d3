"""Pairs drawn from real Wikipedia articles have the figures of the original's own pipeline."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

import pytest

from bertsmith.data.pairs import PairRules, draw
from bertsmith.reading.documents import find_sources, read_raw, sentences_of
from bertsmith.text.tokenizer import Tokenizer
from tests.data.in_memory import InMemoryCorpus

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def articles() -> InMemoryCorpus:
    """Sentence lengths of the first three hundred articles."""
    data = Path(os.environ["BERTSMITH_DATA"])
    tokenizer = Tokenizer.load(data / "vocab" / "bert-base-uncased")
    (source,) = find_sources([data / "corpora" / "enwiki-2015" / "enwiki-2015-AA.txt.xz"])
    documents = []
    for raw in islice(read_raw(source), 300):
        _, counts = tokenizer.ids(sentences_of(raw, "en"))
        if counts.any():
            documents.append(counts[counts > 0].tolist())
    return InMemoryCorpus([documents])


@pytest.mark.parametrize(("sequence_length", "full", "mean"), [(128, 0.75, 113), (512, 0.5, 359)])
def test_articles_give_the_original_s_lengths_and_labels(
    articles: InMemoryCorpus, sequence_length: int, full: float, mean: float
) -> None:
    rules = PairRules(sequence_length=sequence_length)
    rows = draw(articles.shards[0], articles, rules, seed=0, pass_number=0)
    lengths = rows[:, 1] - rows[:, 0] + rows[:, 3] - rows[:, 2] + 3
    assert 0.53 < rows[:, 4].mean() < 0.58
    assert abs((lengths == sequence_length).mean() - full) < 0.07
    assert abs(lengths.mean() / mean - 1) < 0.04
