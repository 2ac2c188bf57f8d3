from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bertsmith.corpus.duplicates import count_duplicates, sentence_hashes, write_run

Sentences = list[list[int]]


def hashes_of(sentences: Sentences) -> list[int]:
    tokens = np.array([token for sentence in sentences for token in sentence], dtype=np.uint32)
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    return sentence_hashes(tokens, lengths).tolist()


@given(st.lists(st.lists(st.integers(0, 70_000), min_size=1, max_size=40), max_size=20))
def test_a_hash_depends_on_its_sentence_alone(sentences: Sentences) -> None:
    together = hashes_of(sentences)
    assert together == [hashes_of([sentence])[0] for sentence in sentences]


def test_order_length_and_every_token_change_the_hash() -> None:
    sentences = [[1, 2, 3], [1, 3, 2], [3, 2, 1], [1, 2], [1, 2, 3, 0], [0, 1, 2, 3], [0], [0, 0]]
    assert len(set(hashes_of(sentences))) == len(sentences)


def test_all_short_sentences_over_a_small_alphabet_differ() -> None:
    grid = np.stack(np.meshgrid(*[np.arange(20)] * 4), axis=-1).reshape(-1, 4)
    assert len(set(hashes_of(grid.tolist()))) == 20**4


@pytest.mark.parametrize("hashes_at_once", [7, 1000, 1 << 20])
def test_duplicates_are_those_beyond_the_first_of_a_kind_over_all_runs(
    tmp_path: Path, hashes_at_once: int
) -> None:
    spread = np.random.default_rng(0).integers(0, 1 << 64, 300, dtype=np.uint64)
    values = spread[np.random.default_rng(1).integers(0, 300, 900)]
    runs = []
    for number, part in enumerate(np.split(values, [100, 100, 750])):
        runs.append(tmp_path / f"{number}.npy")
        write_run(runs[-1], [part[:40], part[40:]])
    assert count_duplicates(runs, hashes_at_once) == 900 - len(set(values.tolist()))


def test_no_sentence_gives_no_duplicate(tmp_path: Path) -> None:
    write_run(tmp_path / "run.npy", [])
    assert count_duplicates([tmp_path / "run.npy"]) == 0
