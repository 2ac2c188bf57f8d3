"""Every step of fine-tuning is a function of (seed, step), and nothing is lost on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bertsmith.batch import TaskBatch
from bertsmith.data.items import Item, Items
from bertsmith.data.labelled import LabelledItems, TaskPlan, _order
from bertsmith.randomness import Int64Array, Stream, permutation


def _item(number: int) -> Item:
    """Tokens that tell the item's number: its length is 2 + number % 5."""
    ids = np.full(2 + number % 5, number, np.int32)
    return Item(token_ids=ids, segment_ids=np.zeros_like(ids), num_unread=0)


def _single(count: int) -> LabelledItems:
    return LabelledItems(
        items=[_item(number) for number in range(count)],
        groups=np.arange(count),
        rows=None,
        targets=[np.array([number]) for number in range(count)],
    )


def _choices() -> LabelledItems:
    """Three questions of 2, 3 and 4 choices, the first choice right."""
    groups = np.repeat(np.arange(3), [2, 3, 4])
    return LabelledItems(
        items=[_item(number) for number in range(9)],
        groups=groups,
        rows=None,
        targets=[np.array([float(start)]) for start in np.diff(groups, prepend=-1)],
    )


def _tags() -> LabelledItems:
    """Every second row of each item is scored."""
    items = [_item(number) for number in range(6)]
    rows = [np.arange(0, len(item.token_ids), 2) for item in items]
    return LabelledItems(
        items=items,
        groups=np.arange(6),
        rows=rows,
        targets=[100 * number + each for number, each in enumerate(rows)],
        by_row=True,
    )


def test_every_epoch_holds_every_example_once_in_an_order_of_its_own() -> None:
    plan = TaskPlan(labelled=_single(10), batch_size=4, seed=3)
    seen = np.concatenate([plan.step(number).targets for number in range(5)])
    assert Counter(seen[:10]) == Counter(seen[10:]) == Counter(range(10))
    assert seen[:10].tolist() != seen[10:].tolist()
    assert plan.step(2).targets.tolist() == seen[8:12].tolist()
    other = TaskPlan(labelled=_single(10), batch_size=4, seed=4)
    assert other.step(0).targets.tolist() != seen[:4].tolist()


@pytest.mark.parametrize(("start", "stop"), [(0, 3), (2, 11), (5, 29), (4, 4)])
def test_several_steps_are_each_of_them_in_turn(start: int, stop: int) -> None:
    plan = TaskPlan(labelled=_single(10), batch_size=4, seed=3)
    found = list(plan.steps(start, stop))
    assert len(found) == stop - start
    for number, batch in enumerate(found, start):
        alone = plan.step(number)
        assert batch.targets.tolist() == alone.targets.tolist()
        assert batch.packed.token_ids.tolist() == alone.packed.token_ids.tolist()


def test_an_epoch_is_shuffled_once_not_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    def counted(size: int, *counters: int) -> Int64Array:
        sizes.append(size)
        return permutation(size, *counters)

    monkeypatch.setattr("bertsmith.data.labelled.permutation", counted)
    _order.cache_clear()
    plan = TaskPlan(labelled=_single(1009), batch_size=100, seed=907)
    whole = np.concatenate([plan.groups(number) for number in range(20)])  # ends in epoch 1
    assert sizes == [1009, 1009]
    assert whole[:1009].tolist() == permutation(1009, 907, Stream.SHUFFLE, 0).tolist()
    assert whole[1009:].tolist() == permutation(1009, 907, Stream.SHUFFLE, 1)[:991].tolist()


def test_a_step_of_several_epochs_reads_them_in_their_order() -> None:
    plan = TaskPlan(labelled=_single(10), batch_size=25, seed=3)
    orders = [permutation(10, 3, Stream.SHUFFLE, epoch).tolist() for epoch in range(6)]
    endless = [group for order in orders for group in order]
    assert plan.groups(0).tolist() == endless[:25]
    assert plan.groups(1).tolist() == endless[25:50]


@pytest.mark.parametrize(
    ("batch_size", "wanted", "steps"), [(4, 3.0, 7), (16, 3.0, 1), (5, 2.0, 4)]
)
def test_steps_read_as_many_epochs_as_they_say(batch_size: int, wanted: float, steps: int) -> None:
    plan = TaskPlan(labelled=_single(10), batch_size=batch_size, seed=3)
    assert plan.num_steps(wanted) == steps
    seen = Counter(np.concatenate([plan.step(number).targets for number in range(steps)]).tolist())
    assert plan.epochs(steps) == sum(seen.values()) / 10
    assert max(seen.values()) - min(seen.values()) <= 1


@pytest.mark.parametrize(("epochs", "steps"), [(3.0, 7), (0.1, 1), (1.0, 2)])
def test_steps_of_so_many_epochs_are_the_originals(epochs: float, steps: int) -> None:
    assert TaskPlan(labelled=_single(10), batch_size=4, seed=0).num_steps(epochs) == steps


def test_targets_rows_and_tokens_of_a_batch_belong_together() -> None:
    batch = _tags().batch(np.array([4, 0, 2]))
    assert batch.rows is not None
    assert batch.targets.tolist() == [400, 402, 404, 0, 200, 202]
    assert batch.packed.token_ids[batch.rows].tolist() == [4, 4, 4, 0, 2, 2]
    assert (batch.step_targets, batch.num_groups) == (6, 3)
    assert batch.targets_per_sequence.tolist() == [3, 1, 2]


def test_the_choices_of_a_question_stay_together() -> None:
    batch = _choices().batch(np.array([2, 0]))
    assert batch.groups.tolist() == [0, 0, 0, 0, 1, 1]
    assert batch.targets.tolist() == [1, 0, 0, 0, 1, 0]
    assert batch.items.tolist() == [5, 6, 7, 8, 0, 1]
    items = [_item(number) for number in batch.items.tolist()]
    assert batch.packed.token_ids.tolist() == [id for each in items for id in each.token_ids]
    assert (batch.step_targets, batch.num_groups) == (2, 2)


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("labelled", [_choices(), _tags()])
def test_micro_batches_are_the_step_cut_between_groups(labelled: LabelledItems, parts: int) -> None:
    whole = labelled.batch(np.array([2, 1, 0]))
    cut = whole.split(parts)
    assert len(cut) == parts
    assert sum(part.num_groups for part in cut) == whole.num_groups
    assert {part.step_targets for part in cut} == {whole.step_targets}
    assert np.concatenate([part.packed.keys for part in cut]).tolist() == list(
        range(whole.packed.num_sequences)
    )
    assert _scored(cut) == _scored([whole])


def test_more_parts_than_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot cut 3"):
        _choices().batch(np.arange(3)).split(4)


def test_items_are_laid_end_to_end_once() -> None:
    labelled = _single(5)
    assert isinstance(labelled.items, Items)
    assert replace(labelled, by_row=True).items is labelled.items
    assert labelled.num_tokens == sum(2 + number % 5 for number in range(5))


@pytest.mark.parametrize("groups", [[0, 2], [1, 2], [0], [1, 0], [0, 0, 1]])
def test_groups_with_gaps_or_of_another_length_are_refused(groups: list[int]) -> None:
    with pytest.raises(ValueError, match="2 items need as many group numbers"):
        LabelledItems(items=[_item(0), _item(1)], groups=np.array(groups), rows=None, targets=[])


def _scored(batches: list[TaskBatch]) -> list[tuple[int, float]]:
    """(token, target) of every scored row, or of every sequence."""
    found: list[tuple[int, float]] = []
    for batch in batches:
        rows = batch.packed.starts if batch.rows is None else batch.rows
        found += zip(batch.packed.token_ids[rows].tolist(), batch.targets.tolist(), strict=True)
    return found
