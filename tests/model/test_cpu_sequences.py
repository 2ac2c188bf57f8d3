"""Chunks of a packed stream are whole sequences and nearly equal, however long these are."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from bertsmith.model.cpu_layer import SOURCE
from bertsmith.native import library

CHUNKS = f"""
#include "{SOURCE.parent / "cpu_sequences.h"}"
extern "C" int64_t chunks(
    const int64_t* firsts, const int64_t* lasts, int64_t count, int64_t most_rows,
    int64_t* borders) {{
  const Sequences sequences{{firsts, lasts, count, nullptr, -1}};
  const std::vector<int64_t> found = sequences.chunks(most_rows);
  std::copy(found.begin(), found.end(), borders);
  return int64_t(found.size());
}}
"""


@pytest.fixture
def chunks(tmp_path: Path) -> ctypes._CFuncPtr:
    """The function of cpu_sequences.h."""
    (source := tmp_path / "chunks.cpp").write_text(CHUNKS)
    if (built := library(source)) is None:
        pytest.skip("no compiler here")
    built.chunks.restype = ctypes.c_int64
    return built.chunks


def borders_of(chunks: ctypes._CFuncPtr, lengths: np.ndarray, most_rows: int) -> np.ndarray:
    """The first sequence of every chunk, and the end."""
    ends = np.cumsum(lengths)
    firsts, lasts, borders = ends - lengths, ends - 1, np.zeros(len(lengths) + 1, np.int64)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (firsts, lasts, borders)]
    sizes = [ctypes.c_int64(each) for each in (len(lengths), most_rows)]
    return borders[: chunks(*places[:2], *sizes, places[2])]


@pytest.mark.parametrize("most_rows", [1, 96, 384, 100_000])
@pytest.mark.parametrize("seed", range(20))
def test_as_few_as_there_are_for_so_many_rows_and_nearly_equal(
    chunks: ctypes._CFuncPtr, seed: int, most_rows: int
) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 120))
    lengths = generator.integers(1, generator.choice([2, 60, 513]), count, dtype=np.int64)
    borders = borders_of(chunks, lengths, most_rows)
    assert borders[0] == 0
    assert borders[-1] == count
    assert (np.diff(borders) > 0).all()
    fewest = -(-int(lengths.sum()) // most_rows)
    assert len(borders) - 1 <= fewest
    rows = np.add.reduceat(lengths, borders[:-1])
    assert (rows <= lengths.sum() / fewest + lengths.max()).all()


def test_of_equal_sequences_none_is_left_over_alone(chunks: ctypes._CFuncPtr) -> None:
    of_128, of_one = np.full(10, 128, np.int64), np.ones(1_000, np.int64)
    assert sorted(np.diff(borders_of(chunks, of_128, 384))) == [2, 2, 3, 3]
    assert sorted(np.diff(borders_of(chunks, of_one, 384))) == [333, 333, 334]
