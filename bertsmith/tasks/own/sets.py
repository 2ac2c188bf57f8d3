"""A file to train on, and one to evaluate on or none -> the two sets, and what to know of them.

Without a file to evaluate on, a share of the other is held out by content. It trains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bertsmith.reading.counted import counted
from bertsmith.tasks.own.files import OwnFile
from bertsmith.tasks.own.split import SplitConfig, num_shared, split

ExampleT = TypeVar("ExampleT")


@dataclass(frozen=True, kw_only=True)
class OwnSets(Generic[ExampleT]):
    """Examples of two kinds."""

    train: tuple[ExampleT, ...]
    dev: tuple[ExampleT, ...]
    """To evaluate on: no part in training."""
    notes: tuple[str, ...]
    """Where `dev` comes from, and what of it stands in `train` too."""
    unlearnable: tuple[ExampleT, ...] = ()
    """Of the side to train on: not in `train`, since they could only be scored."""


def sets_of(
    train: OwnFile[ExampleT],
    dev: OwnFile[ExampleT] | None,
    contents: Callable[[Sequence[ExampleT]], list[str]],
    config: SplitConfig | None = None,
) -> OwnSets[ExampleT]:
    """`dev` as it is, or a share of `train`; `contents` is that of the kind of examples.

    What is right of an example is found in both: gather labels from all of a file before, or a rare
    one may be missing from a side. Raises ValueError for a file that cannot be split, or of which
    nothing can be learned.
    """
    if dev is None:
        numbered = list(enumerate(train.examples))
        to_train, parted = split(numbered, contents(train.examples), config or SplitConfig())
        held_out = [each for _, each in parted]
        note = (
            f"to evaluate on: {len(held_out):,} of the {len(train.examples):,} examples of "
            f"{train.path}, the same in every run; no content stands on both sides"
        )
        learned, unlearnable = _learnable(train, to_train)
        return OwnSets(train=learned, dev=tuple(held_out), notes=(note,), unlearnable=unlearnable)
    shared = num_shared(contents(train.examples), contents(dev.examples))
    notes = (
        (
            f"{shared:,} of the {len(dev.examples):,} examples of {dev.path} "
            f"{'shares its' if shared == 1 else 'share their'} content with examples to train on: "
            f"scores on them flatter",
        )
        if shared
        else ()
    )
    learned, unlearnable = _learnable(train, list(enumerate(train.examples)))
    return OwnSets(train=learned, dev=dev.examples, notes=notes, unlearnable=unlearnable)


def _learnable(
    file: OwnFile[ExampleT], numbered: Sequence[tuple[int, ExampleT]]
) -> tuple[tuple[ExampleT, ...], tuple[ExampleT, ...]]:
    """What of these can be learned, and what can only be scored."""
    learned = tuple(each for number, each in numbered if number not in file.unlearnable)
    if not learned:
        first = next(file.unlearnable[number] for number, _ in numbered)
        raise ValueError(
            f"{file.path}: nothing to learn in its {counted(len(numbered), 'example')}, the first "
            f"because: {first}"
        )
    return learned, tuple(each for number, each in numbered if number in file.unlearnable)
