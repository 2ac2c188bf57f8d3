"""Ranges of whole sentences, held to a walk from the shard's first sentence."""

from __future__ import annotations

import numpy as np
import pytest

from bertsmith.data.filling import fill
from bertsmith.randomness import integers
from tests.data.in_memory import InMemoryCorpus


@pytest.mark.parametrize("wanted", [1, 20, 125, 509, 4000])
def test_ranges_equal_a_walk_over_the_sentences(wanted: int) -> None:
    lengths = (1 + integers(30, 1, np.arange(1000))).tolist()
    shard = InMemoryCorpus([[[3]], [lengths[:200], lengths[200:]]]).shards[1]
    sentences = np.arange(1000)
    ends = np.where(sentences < 200, 200, 1000)
    ranges = fill(shard, sentences, ends, np.full(1000, wanted))
    for sentence in sentences:
        start = 3 + sum(lengths[:sentence])
        end, following = start + lengths[sentence], sentence + 1
        while end - start < wanted and following < ends[sentence]:
            end, following = end + lengths[following], following + 1
        assert ranges[sentence].tolist() == [start, end]
