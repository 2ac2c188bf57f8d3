"""What examples hold -> which of them are for evaluation, where no file is given for it.

The choice is a hash of the content: the same in every run, in any order of the rows, and examples
of one content never stand on both sides. It knows no tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
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
    examples: Sequence[ExampleT], contents: Sequence[str], config: SplitConfig
) -> tuple[list[ExampleT], list[ExampleT]]:
    """(those to train on, those to evaluate on), each in the order given; neither is empty.

    `contents` holds what keeps examples together: a text, a document, a passage. Raises ValueError
    where all examples have one.
    """
    is_held_out = held_out(contents, config)
    paired = list(zip(examples, is_held_out.tolist(), strict=True))
    return [each for each, is_out in paired if not is_out], [
        each for each, is_out in paired if is_out
    ]


def held_out(contents: Sequence[str], config: SplitConfig) -> BoolArray:
    """(N,) which examples are for evaluation: contents in the order of their hash, while they fit.

    Where each of them is larger than the share, the smallest.
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
    is_taken = np.zeros(len(units), np.bool_)
    for unit in order:
        if sizes[unit] <= room:
            is_taken[unit] = True
            room -= int(sizes[unit])
    if not is_taken.any():
        is_taken[order[np.argmin(sizes[order])]] = True
    if is_taken.all():
        is_taken[order[-1]] = False
    found: BoolArray = is_taken[unit_of]
    return found


def num_shared(train: Sequence[str], dev: Sequence[str]) -> int:
    """How many contents to evaluate on stand among those to train on."""
    known = set(train)
    return sum(content in known for content in dev)


def _digest(content: str) -> int:
    digest = hashlib.blake2b(content.encode("utf-8"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
