"""Chunks of a packed stream, by a function of cpu_sequences.h: whole sequences, nearly equal."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from bertsmith.model.cpu_layer import SOURCE
from bertsmith.native import library
from tests.builds import NEEDS_COMPILER

pytestmark = NEEDS_COMPILER

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
    built = library(source)
    assert built is not None
    built.chunks.restype = ctypes.c_int64
    return built.chunks


def borders_of(chunks: ctypes._CFuncPtr, lengths: np.ndarray, most_rows: int) -> np.ndarray:
    """The first sequence of every chunk, and the end."""
    ends = np.cumsum(lengths)
    firsts, lasts, borders = ends - lengths, ends - 1, np.zeros(len(lengths) + 1, np.int64)
    places = [ctypes.c_void_p(each.ctypes.data) for each in (firsts, lasts, borders)]
    sizes = [ctypes.c_int64(each) for each in (len(lengths), most_rows)]
    return borders[: chunks(*places[:2], *sizes, places[2])]


def fewest_chunks(lengths: np.ndarray, most_rows: int) -> int:
    """Of no more rows, or of one sequence."""
    num_chunks, rows = 1, 0
    for length in lengths.tolist():
        if rows and rows + length > most_rows:
            num_chunks, rows = num_chunks + 1, 0
        rows += length
    return num_chunks


@pytest.mark.parametrize("most_rows", [1, 96, 384, 100_000])
@pytest.mark.parametrize("seed", range(20))
def test_a_chunk_of_several_sequences_has_less_than_twice_an_equal_part(
    chunks: ctypes._CFuncPtr, seed: int, most_rows: int
) -> None:
    generator = np.random.default_rng(seed)
    count = int(generator.integers(1, 120))
    lengths = generator.integers(1, generator.choice([2, 60, 513]), count, dtype=np.int64)
    borders = borders_of(chunks, lengths, most_rows)
    assert borders[0] == 0
    assert borders[-1] == count
    assert (np.diff(borders) > 0).all()
    num_parts = fewest_chunks(lengths, most_rows)
    assert len(borders) - 1 <= num_parts
    rows = np.add.reduceat(lengths, borders[:-1])
    assert (rows[np.diff(borders) > 1] * num_parts < 2 * lengths.sum()).all()


@pytest.mark.parametrize(
    ("count", "length", "expected"),
    [(10, 128, {2, 3}), (1_000, 1, {333, 334}), (10, 256, {1}), (3, 200, {1}), (2, 900, {1})],
)
def test_chunks_of_equal_sequences_differ_by_one_at_most(
    chunks: ctypes._CFuncPtr, count: int, length: int, expected: set[int]
) -> None:
    borders = borders_of(chunks, np.full(count, length, np.int64), 384)
    assert len(borders) - 1 == fewest_chunks(np.full(count, length), 384)
    assert set(np.diff(borders).tolist()) == expected
