"""The incremental joining of pairs equals the plain algorithm, step for step."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bertsmith.text.chains import SymbolChains
from bertsmith.text.config import Score
from bertsmith.text.merges import joined_texts

WORD_COUNTS = st.dictionaries(
    st.text(alphabet="ab가", min_size=1, max_size=9), st.integers(1, 6), min_size=1, max_size=10
)


def plain_joins(counts: dict[str, int], score: Score, min_pair_count: int, most: int) -> list[str]:
    """Recounts every pair of every word at each step: slow, obvious, the definition."""
    words = {word: [word[0], *("##" + c for c in word[1:])] for word in counts}
    joined: list[str] = []
    while len(joined) < most:
        symbols: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()
        for word, parts in words.items():
            for part in parts:
                symbols[part] += counts[word]
            for pair in itertools.pairwise(parts):
                pairs[pair] += counts[word]
        value = {
            pair: n if score == "frequency" else n / symbols[pair[0]] / symbols[pair[1]]
            for pair, n in pairs.items()
            if n >= min_pair_count
        }
        if not value:
            return joined
        left, right = min(value, key=lambda pair: (-value[pair], pair))
        joined.append(left + right[2:])
        words = {word: _replaced(parts, left, right) for word, parts in words.items()}
    return joined


def _replaced(parts: list[str], left: str, right: str) -> list[str]:
    result: list[str] = []
    rest = list(parts)
    while rest:
        part = rest.pop(0)
        if part == left and rest and rest[0] == right:
            part += rest.pop(0)[2:]
        result.append(part)
    return result


def fast_joins(counts: dict[str, int], score: Score, min_pair_count: int, most: int) -> list[str]:
    words = sorted(counts)
    times = np.array([counts[word] for word in words], dtype=np.int64)
    chains = SymbolChains(words, times, sorted(set("".join(words))))
    return list(itertools.islice(joined_texts(chains, score, min_pair_count), most))


@pytest.mark.parametrize("score", ["frequency", "likelihood"])
@given(counts=WORD_COUNTS, min_pair_count=st.integers(1, 4))
@settings(max_examples=150)
def test_joins_equal_the_plain_algorithm(
    score: Score, counts: dict[str, int], min_pair_count: int
) -> None:
    fast = fast_joins(counts, score, min_pair_count, 50)
    assert fast == plain_joins(counts, score, min_pair_count, 50)


def test_joins_equal_the_plain_algorithm_on_english_words() -> None:
    text = " ".join(str(value.__doc__) for value in vars(str).values()).lower()
    counts = Counter(word for word in text.split() if word.isascii())
    assert len(counts) > 200
    assert fast_joins(counts, "frequency", 2, 400) == plain_joins(counts, "frequency", 2, 400)


def test_equally_frequent_pairs_are_joined_in_the_order_of_their_text() -> None:
    assert fast_joins({"zy": 3, "ab": 3, "ac": 3}, "frequency", 1, 9) == ["ab", "ac", "zy"]


def test_likelihood_prefers_the_pair_whose_parts_stand_nowhere_else() -> None:
    counts = {"qu": 3, "th": 9, "to": 9, "ah": 9}
    assert fast_joins(counts, "frequency", 1, 1) == ["ah"]
    assert fast_joins(counts, "likelihood", 1, 1) == ["qu"]
