"""What examples hold -> which of them are for evaluation, where no file is given for it.

The choice is a hash of the content: the same in every run, in any order of the rows, and examples
of one content never stand on both sides. What is the last of its label stays in training, where
that can be; all else is left to the hash, so the sides are not stratified. It knows no tasks.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from bertsmith.randomness import Stream, hash64

BoolArray = npt.NDArray[np.bool_]
ExampleT = TypeVar("ExampleT")

_BETWEEN = "\x1f"


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """How examples are divided."""

    share: float = 0.1
    """Of the examples, for evaluation."""
    seed: int = 0
    """Another number, another split; it is not the seed of the run."""

    def __post_init__(self) -> None:
        """Refuses a share that leaves one side empty."""
        if not 0.0 < self.share < 1.0:
            raise ValueError(f"the share for evaluation must be between 0 and 1: {self.share}")


def content_of(*texts: str) -> str:
    """Texts as one, the same for any capitals and blanks."""
    return _BETWEEN.join(" ".join(text.split()).casefold() for text in texts)


def split(
    examples: Sequence[ExampleT],
    contents: Sequence[str],
    config: SplitConfig,
    labels: Sequence[Collection[str]] = (),
) -> tuple[list[ExampleT], list[ExampleT]]:
    """(those to train on, those to evaluate on), each in the order given; neither is empty.

    `contents` holds what keeps examples together: a text, a document, a passage; `labels` what of
    each should be met in training. Raises ValueError where all examples have one content.
    """
    is_held_out = held_out(contents, config, labels)
    paired = list(zip(examples, is_held_out.tolist(), strict=True))
    return [each for each, is_out in paired if not is_out], [
        each for each, is_out in paired if is_out
    ]


def held_out(
    contents: Sequence[str], config: SplitConfig, labels: Sequence[Collection[str]] = ()
) -> BoolArray:
    """(N,) which examples are for evaluation: contents in the order of their hash, while they fit.

    Where each of them is larger than the share, the smallest. A content is passed over where the
    others to train on would lack one of its labels, unless that is so of every content.
    """
    units, unit_of, sizes = np.unique(
        np.array([_digest(content) for content in contents], np.int64),
        return_inverse=True,
        return_counts=True,
    )
    if len(units) < 2:
        raise ValueError(
            f"{len(contents):,} examples cannot be split: all have the same content, or belong to "
            f"one document; give a file to evaluate on"
        )
    order = np.argsort(hash64(config.seed, Stream.SPLIT, units), kind="stable")
    room = max(1, round(config.share * len(contents)))
    left = _LabelsLeft(len(units), unit_of, labels)
    spare = [unit for unit in order if left.are_without(unit)]
    if not spare:
        left, spare = _LabelsLeft(len(units), unit_of, ()), list(order)
    is_taken = np.zeros(len(units), np.bool_)
    for unit in spare:
        if sizes[unit] <= room and left.are_without(unit):
            is_taken[unit] = True
            room -= int(sizes[unit])
            left.take(unit)
    if not is_taken.any():
        is_taken[spare[np.argmin(sizes[spare])]] = True
    if is_taken.all():
        is_taken[order[-1]] = False
    found: BoolArray = is_taken[unit_of]
    return found


def num_shared(train: Sequence[str], dev: Sequence[str]) -> int:
    """How many contents to evaluate on stand among those to train on, line by line.

    A document has a line for each of its sentences; a sentence alone and a text are one.
    """
    known = {line for content in train for line in content.split("\n")}
    return sum(known.issuperset(content.split("\n")) for content in dev)


class _LabelsLeft:
    """Of each label, how many contents to train on have it."""

    def __init__(
        self, num_units: int, unit_of: npt.NDArray[np.intp], labels: Sequence[Collection[str]]
    ) -> None:
        self._of_units: list[set[str]] = [set() for _ in range(num_units)]
        for unit, of_example in zip(unit_of if labels else (), labels, strict=True):
            self._of_units[unit].update(of_example)
        self._counts = Counter(label for each in self._of_units for label in each)

    def are_without(self, unit: int) -> bool:
        """Whether every label is left without this content."""
        return all(self._counts[label] > 1 for label in self._of_units[unit])

    def take(self, unit: int) -> None:
        """Takes the content away."""
        self._counts.subtract(self._of_units[unit])


def _digest(content: str) -> int:
    digest = hashlib.blake2b(content.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
