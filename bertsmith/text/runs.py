"""Words with counts, in any order and number -> one sorted file of sums, in bounded memory.

What outgrows the memory is written to disk as a sorted run; the runs are merged at the end. It does
not know where the words come from.

Source: external merge sort (Knuth, The Art of Computer Programming, vol. 3, section 5.4).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path

from bertsmith.files import naming

_BYTES_PER_WORD = 160  # a dict entry with its str and int, measured with words of 8 characters
_MOST_RUNS = 64  # files open at once; more are merged into one first


class SortedRuns:
    """Counts in memory up to a limit, and sorted runs of them in a scratch directory.

    A run has one word, a tab and its count a line, UTF-8, words ascending by code point.
    """

    def __init__(self, scratch: Path, memory_bytes: int) -> None:
        self._scratch = scratch
        self._most_words = max(1, memory_bytes // _BYTES_PER_WORD)
        self._counts: dict[str, int] = {}
        self._paths: list[Path] = []
        self._numbers = itertools.count()

    def add(self, counts: Mapping[str, int]) -> None:
        """Adds counts; writes a run when the memory is full."""
        mine = self._counts
        for word, times in counts.items():
            mine[word] = mine.get(word, 0) + times
        if len(mine) >= self._most_words:
            self._spill()

    def finish(self, path: Path) -> tuple[int, int]:
        """Merges everything into `path`; returns the number of words and of distinct words."""
        self._spill()
        merged = self._merge() if len(self._paths) > 1 else self._paths[0]
        self._paths = []
        merged.replace(path)
        num_words = num_distinct = 0
        for _, times in read_run(path):
            num_words += times
            num_distinct += 1
        return num_words, num_distinct

    def _spill(self) -> None:
        if not self._counts and self._paths:
            return
        self._paths.append(self._write(sorted(self._counts.items())))
        self._counts = {}
        if len(self._paths) >= _MOST_RUNS:
            self._paths = [self._merge()]

    def _merge(self) -> Path:
        merged = self._write(_sums(heapq.merge(*map(read_run, self._paths))))
        for path in self._paths:
            path.unlink()
        return merged

    def _write(self, counts: Iterable[tuple[str, int]]) -> Path:
        path = self._scratch / f"run-{next(self._numbers):05d}.tsv"
        with (
            naming(path),
            path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file,
        ):
            file.writelines(f"{word}\t{times}\n" for word, times in counts)
        return path


def read_run(path: Path) -> Iterator[tuple[str, int]]:
    """The words and counts of a run, in its order."""
    with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        for line in file:
            word, _, times = line.rpartition("\t")
            yield word, int(times)


def _sums(counts: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    for word, group in itertools.groupby(counts, key=itemgetter(0)):
        yield word, sum(times for _, times in group)
