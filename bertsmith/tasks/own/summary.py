"""Examples -> what a person wants to know of them before hours of training, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from bertsmith.reading.counted import counted
from bertsmith.tasks.own.files import OwnFile

ExampleT = TypeVar("ExampleT")

_LONG_SHARE = 0.95
_TOLD = 5


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """How long something is, over all examples."""

    name: str
    """What is counted."""
    median: int
    long: int
    """95% are not longer."""
    longest: int


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a file holds."""

    path: str
    num_examples: int
    balance: str
    """How often each label occurs; empty without labels."""
    lengths: tuple[Lengths, ...]
    left_out: tuple[str, ...]
    """Of each row left out: where it stands, and why."""
    notes: tuple[str, ...]

    def lines(self) -> list[str]:
        """For a person; of the rows left out the first few."""
        told = [f"{self.path}: {counted(self.num_examples, 'example')}"]
        told += [self.balance] if self.balance else []
        told += [
            f"{each.name}: {each.median:,} (median), {each.long:,} ({_LONG_SHARE:.0%} at most), "
            f"{each.longest:,} (longest)"
            for each in self.lengths
        ]
        told += self.notes
        if self.left_out:
            told.append(f"{len(self.left_out):,} left out:")
            told += [f"  {fault}" for fault in self.left_out[:_TOLD]]
            if len(self.left_out) > _TOLD:
                told.append(f"  and {len(self.left_out) - _TOLD:,} more")
        return told


def lengths_of(name: str, values: Iterable[int]) -> Lengths:
    """The lengths of at least one thing."""
    found = np.fromiter(values, np.int64)
    median, long, longest = np.quantile(found, (0.5, _LONG_SHARE, 1.0), method="higher").tolist()
    return Lengths(name=name, median=median, long=long, longest=longest)


def num_repeated(contents: Sequence[str]) -> int:
    """Examples beyond the first of their content."""
    return len(contents) - len(set(contents))


def summarised(
    file: OwnFile[ExampleT],
    *,
    balance: str,
    lengths: Iterable[Lengths],
    notes: Iterable[str] = (),
) -> Summary:
    """The summary of a file, its own notes first."""
    return Summary(
        path=str(file.path),
        num_examples=len(file.examples),
        balance=balance,
        lengths=tuple(lengths),
        left_out=file.left_out,
        notes=(*file.notes, *notes),
    )
