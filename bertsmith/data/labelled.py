"""Labelled items -> the batch of any step of fine-tuning: a pure function of (seed, step).

Steps take their groups from the endless sequence of shuffled epochs, across the borders of epochs
without a gap, so that no example is left out. This file knows no tasks and no tensors.

Source: google-research/bert run_classifier.py, file_based_input_fn_builder (shuffled, repeated).

Legend: N items, n those of a batch, G groups, R scored rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from bertsmith.batch import IntArray, TaskBatch, starts_of
from bertsmith.data.items import Item, Items
from bertsmith.randomness import Stream, permutation

Targets = npt.NDArray[np.number]
_NUM_DRAWN_TOGETHER = 8
"""Steps whose batches are drawn one behind the other."""


@dataclass(frozen=True, kw_only=True)
class LabelledItems:
    """What a model reads, and what it should say of it."""

    items: Sequence[Item]
    """N sequences, laid end to end (`Items`) when this is made."""
    groups: IntArray
    """(N,) int64: what each is answered together with, ascending from 0 without a gap."""
    rows: Sequence[IntArray] | None
    """Of each item, the rows that are scored, ascending; None where the task scores all rows, or
    the vector of each sequence."""
    targets: Sequence[Targets]
    """Of each item, what is right; none of them for items to predict on."""
    by_row: bool = False
    """Whether each scored row is an answer of its own, rather than each group."""

    def __post_init__(self) -> None:
        """Lays items end to end, and checks once what every batch relies on."""
        object.__setattr__(self, "items", Items.of(self.items))  # in place of those given
        num_items = len(self.items)
        steps = np.diff(self.groups, prepend=-1)
        if not num_items or len(steps) != num_items or steps[0] != 1 or not set(steps) <= {0, 1}:
            raise ValueError(
                f"{num_items} items need as many group numbers, from 0 on without a gap; found "
                f"{len(self.groups)}"
            )
        for name, each in (("rows", self.rows), ("targets", self.targets)):
            if each and len(each) != num_items:
                raise ValueError(f"{num_items} items need as many {name}, found {len(each)}")

    @property
    def num_groups(self) -> int:
        """G."""
        return int(self.groups[-1]) + 1

    @property
    def num_tokens(self) -> int:
        """Of all sequences."""
        return self._items.packed.num_tokens

    def batch(self, groups: IntArray) -> TaskBatch:
        """Some groups, in the order given, laid end to end."""
        firsts = self._borders[groups]
        counts = self._borders[groups + 1] - firsts
        of_items = np.repeat(firsts - starts_of(counts), counts) + np.arange(counts.sum())  # (n,)
        numbers = of_items.tolist()
        packed = self._items.batch(of_items)
        rows = None
        if self.rows is not None:
            scored = [self.rows[number] for number in numbers]
            starts = np.repeat(packed.starts, [len(each) for each in scored])
            rows = starts + np.concatenate(scored)
        targets = [self.targets[number] for number in numbers]
        return TaskBatch(
            packed=packed,
            groups=np.repeat(np.arange(len(groups)), counts),
            rows=rows,
            targets=np.concatenate(targets),
            targets_per_sequence=np.array([len(each) for each in targets], dtype=np.int64),
            items=of_items,
            step_targets=len(rows) if self.by_row and rows is not None else len(groups),
        )

    @property
    def _items(self) -> Items:
        assert isinstance(self.items, Items)
        return self.items

    @cached_property
    def _borders(self) -> IntArray:
        """(G + 1,) int64: where in the items each group begins, and the last one ends."""
        return np.searchsorted(self.groups, np.arange(self.num_groups + 1))


@dataclass(frozen=True, kw_only=True)
class TaskPlan:
    """The steps of a fine-tuning run."""

    labelled: LabelledItems
    batch_size: int
    """Groups a step (paper: 16 or 32)."""
    seed: int
    """Keys the shuffling."""

    def num_steps(self, epochs: float) -> int:
        """Steps of so many epochs, rounded down but at least one, as in the original."""
        return max(1, int(self.labelled.num_groups * epochs / self.batch_size))

    def epochs(self, steps: int) -> float:
        """Times that so many steps read the examples; one of a large batch more than once."""
        return steps * self.batch_size / self.labelled.num_groups

    def step(self, number: int) -> TaskBatch:
        """The batch of step `number`, from 0."""
        return self.labelled.batch(self.groups(number))

    def steps(self, start: int, stop: int) -> Iterator[TaskBatch]:
        """The batches of steps start..stop-1, some of them drawn at a time.

        Between two steps of training what draws a batch falls out of the caches; the second to the
        last of a group find it there.
        """
        for first in range(start, stop, _NUM_DRAWN_TOGETHER):
            group = range(first, min(stop, first + _NUM_DRAWN_TOGETHER))
            yield from [self.step(number) for number in group]

    def groups(self, number: int) -> IntArray:
        """Which groups step `number` takes, in its order."""
        size = self.labelled.num_groups
        places = number * self.batch_size + np.arange(self.batch_size)
        epochs, within = np.divmod(places, size)
        return np.concatenate(
            [
                _order(size, self.seed, epoch)[within[epochs == epoch]]
                for epoch in range(int(epochs[0]), int(epochs[-1]) + 1)
            ]
        )


@lru_cache(maxsize=4)  # two epochs meet in a step, and two runs may take turns
def _order(size: int, seed: int, epoch: int) -> IntArray:
    """The groups of an epoch as it reads them; kept, for every step of the epoch asks for it."""
    order = permutation(size, seed, Stream.SHUFFLE, epoch)
    order.setflags(write=False)
    return order
