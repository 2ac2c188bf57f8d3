"""Sentences -> how many of them were seen before, in bounded memory.

Each sentence becomes a 64-bit hash of its token ids. Hashes are spilled in sorted runs; at the end
the runs are read side by side, one range of hash values at a time, so that memory stays the same
for a novel and a terabyte. Two different sentences count as one with probability n^2 / 2^65: once
in 3,700 builds of a hundred million sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bertsmith.array_files import write_array
from bertsmith.batch import IntArray, starts_of
from bertsmith.randomness import hash64

UInt64Array = npt.NDArray[np.uint64]

HASHES_AT_ONCE = 1 << 23
_FACTOR = 0x9E3779B97F4A7C15
_BASE = 0xD1342543DE82EF95
_INVERSE_BASE = pow(_BASE, -1, 1 << 64)


def sentence_hashes(token_ids: IntArray, lengths: IntArray) -> UInt64Array:
    """(S,) a hash of each sentence's tokens and their order; lengths (S,) at least 1, sum to T.

    A polynomial in an odd base over scrambled ids. The powers run through all T tokens; a power of
    the inverse base moves each sentence's sum back to where it would stand alone.
    """
    if not len(lengths):
        return np.zeros(0, dtype=np.uint64)
    starts = starts_of(lengths)
    values = (token_ids.astype(np.uint64) + np.uint64(1)) * np.uint64(_FACTOR)
    values ^= values >> np.uint64(32)
    values *= np.uint64(_FACTOR)
    values *= _powers(_BASE, len(values))
    sums = np.add.reduceat(values, starts) * _powers(_INVERSE_BASE, len(values))[starts]
    return hash64(sums.view(np.int64), lengths)


def write_run(path: Path, hashes: Sequence[UInt64Array]) -> None:
    """Spills hashes as one sorted run."""
    run = np.concatenate([np.zeros(0, dtype=np.uint64), *hashes])
    run.sort()
    write_array(path, run)


def count_duplicates(runs: Sequence[Path], hashes_at_once: int = HASHES_AT_ONCE) -> int:
    """Sentences beyond the first of their kind, over all runs."""
    total = sum(len(np.load(run, mmap_mode="r")) for run in runs)
    num_ranges = -(-total // hashes_at_once)
    edges = np.array(
        [(place << 64) // num_ranges for place in range(1, num_ranges)], dtype=np.uint64
    )
    cuts = [_cuts(run, edges) for run in runs]
    distinct = 0
    for place in range(num_ranges):
        parts = [
            np.array(np.load(run, mmap_mode="r")[cut[place] : cut[place + 1]])
            for run, cut in zip(runs, cuts, strict=True)
        ]
        values = np.concatenate(parts)
        values.sort()
        distinct += int(np.count_nonzero(values[1:] != values[:-1])) + min(1, len(values))
    return total - distinct


def _cuts(run: Path, edges: UInt64Array) -> npt.NDArray[np.int64]:
    hashes = np.load(run, mmap_mode="r")
    return np.concatenate([[0], np.searchsorted(hashes, edges), [len(hashes)]])


def _powers(base: int, number: int) -> UInt64Array:
    """(number,) base^0, base^1, ... modulo 2^64."""
    powers = np.full(number, base, dtype=np.uint64)
    powers[:1] = 1
    np.multiply.accumulate(powers, out=powers)
    return powers
