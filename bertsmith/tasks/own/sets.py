"""A file to train on, and one to evaluate on or none -> the two sets, and what to know of them.

Without a file to evaluate on, a share of the other is held out by content. It trains nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bertsmith.reading.counted import counted
from bertsmith.tasks.label_lists import few
from bertsmith.tasks.own.files import OwnFile
from bertsmith.tasks.own.split import SplitConfig, num_shared, split

ExampleT = TypeVar("ExampleT")
Labels = Callable[[Sequence[ExampleT]], Sequence[Collection[str]]]

_MOST_TOLD = 5
_ADVICE = "take another share (--dev-share, --split-seed), or give a file to evaluate on with --dev"


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
    labels: Labels[ExampleT] = lambda examples: [()] * len(examples),
) -> OwnSets[ExampleT]:
    """`dev` as it is, or a share of `train`; `contents` is that of the kind of examples.

    `labels` are what of each example should be met in training; gather a task's own from all of a
    file before, or a rare one may be missing. Raises ValueError for a file that cannot be split, or
    of which nothing can be learned.
    """
    if dev is None:
        return _parted(train, contents, config or SplitConfig(), labels)
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


def _parted(
    file: OwnFile[ExampleT],
    contents: Callable[[Sequence[ExampleT]], list[str]],
    config: SplitConfig,
    labels: Labels[ExampleT],
) -> OwnSets[ExampleT]:
    numbered, listed = list(enumerate(file.examples)), labels(file.examples)
    to_train, held_out = split(numbered, contents(file.examples), config, listed)
    note = (
        f"to evaluate on: {len(held_out):,} of the {len(file.examples):,} examples of "
        f"{file.path}, the same in every run; no content stands on both sides"
        f"{_missed(len(held_out), len(file.examples), config.share)}"
    )
    met = [
        {label for number, _ in side for label in listed[number]} for side in (to_train, held_out)
    ]
    learned, unlearnable = _learnable(file, to_train)
    return OwnSets(
        train=learned,
        dev=tuple(each for _, each in held_out),
        notes=(note, *_missing(*met)),
        unlearnable=unlearnable,
    )


def _missed(count: int, total: int, share: float) -> str:
    """That the share is far from what was asked for; empty where it is near."""
    if abs(count - share * total) <= max(1.0, 0.5 * share * total):
        return ""
    return (
        f"; that is {count / total:.1%} and not {share:.1%}: documents and equal contents stay "
        f"whole, and training keeps an example of every label"
    )


def _missing(in_train: set[str], in_dev: set[str]) -> Iterator[str]:
    """A line where training lacks labels, and one where Dev has but one of several."""
    known = in_train | in_dev
    if lost := sorted(known - in_train):
        number = f"{len(lost):,} of the {counted(len(known), 'label')}"
        yield (
            f"{number} {'stands' if len(lost) == 1 else 'stand'} in no example to train on, and "
            f"cannot be learned: {few(lost, _MOST_TOLD)}; {_ADVICE}"
        )
    if len(in_dev) == 1 < len(known):
        yield (
            f"all to evaluate on have the label {min(in_dev)!r}, and there are {len(known):,}: "
            f"scores on them say nothing of the others; {_ADVICE}"
        )


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
