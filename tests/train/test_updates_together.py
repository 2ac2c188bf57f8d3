"""Runs of several kinds in one step, and rows of a table among them."""

import pytest
import torch

from bertsmith.train import updates
from bertsmith.train.cpu_updates import BLOCK, NativeUpdates, Sleepers
from bertsmith.train.gradient import Gradient
from bertsmith.train.updates import Flat, Update, Updates
from tests.builds import NEEDS_COMPILER
from tests.train.one_run import FACTOR, RATES, adam, copied, drawn, squared_norm, tensor_rates

pytestmark = NEEDS_COMPILER


def test_lamb_beside_runs_of_adam_is_as_alone_and_nearly_as_defined(monkeypatch):
    found, alone, exact, norms = [], [], [], []
    for number, sizes in enumerate([[40, 60], None, [700]]):
        flat, gradient = drawn(sum(sizes or [300]), torch.bfloat16, has_copy=True)
        rates = RATES._replace(learning_rate=10.0**-number)
        for each in (found, alone):
            each.append(Update(copied(flat), Gradient([gradient]), rates, sizes=sizes))
        wide = copied(flat, torch.float64)._replace(copy=None)
        exact.append(Update(wide, Gradient([gradient.double()]), rates, sizes=sizes))
        norms.append(squared_norm(Gradient([gradient])))
    together = Updates(found)
    torch.testing.assert_close(together.squared_norm(), sum(norms), rtol=1e-6, atol=0.0)
    for each in exact:
        Updates([each]).take(FACTOR.double())
    monkeypatch.setattr(updates, "lamb_direction", lambda *_: pytest.fail("by the definition"))
    together.take(FACTOR)
    for ours, each, right in zip(found, alone, exact, strict=True):
        Updates([each]).take(FACTOR)
        for one, other in zip(ours.flat, each.flat, strict=True):
            assert torch.equal(one, other)
        for one, wide in zip(ours.flat[:3], right.flat[:3], strict=True):
            assert (one.double() - wide).norm() <= 1e-6 * wide.norm()
        assert torch.equal(ours.flat.copy, ours.flat.weight.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", [1, 15, 16, 17, BLOCK - 1, BLOCK, 3 * BLOCK + 5])
def test_the_direction_of_lamb_is_that_of_the_definition(size, dtype):
    """Of a gradient in pieces too; weights and copy stay as they are."""
    flat, gradient = drawn(size, dtype, has_copy=True)
    exact = copied(flat, torch.float64)._replace(copy=None)
    wide = updates.lamb_direction(exact, gradient.double(), tensor_rates(torch.float64))
    in_pieces = [each.clone() for each in gradient.split(100)]
    for parts in ([gradient], in_pieces):
        found = copied(flat)
        beside, update = Update(*drawn_run(), RATES), Update(found, Gradient(parts), RATES)
        native = NativeUpdates([update._replace(sizes=[size]), beside])
        assert [each.flat is found for each in native.of_lamb] == [True]
        direction = native.direction(0, float(FACTOR))
        assert (direction.double() - wide).norm() <= 1e-6 * wide.norm()
        for moment, right in zip(found[1:3], exact[1:3], strict=True):
            assert (moment.double() - right).norm() <= 1e-6 * right.norm()
        assert torch.equal(found.weight, flat.weight)
        assert torch.equal(found.copy, flat.copy)


def drawn_run():
    """Weights and their gradient, of Adam's."""
    flat, gradient = drawn(300, torch.bfloat16, has_copy=True)
    return flat, Gradient([gradient])


def sparse(rows, values, num_rows):
    size = (num_rows, values.shape[1])
    return torch.sparse_coo_tensor(rows, values, size, check_invariants=False, is_coalesced=True)


def test_a_table_and_sleepers_among_other_runs_are_as_alone():
    flat, numbers = drawn(8 * BLOCK, torch.bfloat16, has_copy=True)
    for moment in flat[1:3]:
        moment.zero_()
    other, rows = copied(flat), torch.tensor([[1, 4, 6]])
    table = sparse(rows, numbers.view(8, BLOCK)[:3].clone(), 8)
    ours, theirs = Sleepers(8 * BLOCK), Sleepers(8 * BLOCK)
    beside, gradient = drawn(1_000, torch.float32, has_copy=False)
    together = Updates(
        [
            Update(beside, Gradient([gradient]), RATES),
            Update(flat, Gradient([table]), RATES, ours),
        ]
    )
    norm = together.squared_norm()
    squares = gradient.square().sum() + table.values().float().square().sum()
    torch.testing.assert_close(norm, squares)
    together.take(FACTOR)
    squared_norm(Gradient([table]), theirs)
    adam(other, Gradient([table]), theirs)
    assert ours.awake.tolist() == theirs.awake.tolist() == [0, 1, 0, 0, 1, 0, 1, 0]
    for sleepers, each in ((ours, flat), (theirs, other)):
        sleepers.settle(each)
    for one, right in zip(flat, other, strict=True):
        assert torch.equal(one, right)


def test_rows_of_a_table_that_lie_apart_and_none_at_all_are_taken():
    apart, values = torch.arange(20)[None, ::2], torch.randn(10, 32)
    assert not apart.is_contiguous()
    size, found = 20 * 32, []
    for rows in (apart, apart.contiguous()):
        flat, _ = drawn(size, torch.float32, has_copy=False)
        gradient, sleepers = Gradient([sparse(rows, values, 20)]), Sleepers(size)
        norm = squared_norm(gradient, sleepers)
        adam(flat, gradient, sleepers)
        found.append([*flat[:3], norm, sleepers.awake])
    for one, right in zip(*found, strict=True):
        assert torch.equal(one, right)
    gradient, sleepers = Gradient([sparse(apart[:, :0], values[:0], 20)]), Sleepers(size)
    assert squared_norm(gradient, sleepers) == 0.0
    flat, _ = drawn(size, torch.float32, has_copy=False)
    other = copied(flat)
    adam(flat, gradient)
    adam(other, Gradient([torch.zeros(size)]))
    for one, right in zip(flat[:3], other[:3], strict=True):
        assert torch.equal(one, right)
    assert not sleepers.awake.any()


def test_runs_together_are_the_bits_of_each_alone_and_those_of_the_definition_beside():
    """In one call, gradients of both types; float64 weights are not for it."""
    kinds = [(torch.float32, 700), (torch.bfloat16, 20_001), (torch.float32, 5), (None, 300)]
    found, alone = [], []
    for number, (dtype, size) in enumerate(kinds):
        flat, gradient = drawn(size, dtype or torch.float64, has_copy=dtype == torch.bfloat16)
        if dtype is None:
            flat = Flat(*(each.double() for each in flat[:3]), None)
        rates = RATES._replace(learning_rate=10.0**-number)
        other = copied(flat, flat.weight.dtype)
        found.append(Update(flat, Gradient([gradient]), rates))
        alone.append(Update(other, Gradient([gradient]), rates))
    together = Updates(found)
    norm = together.squared_norm()
    together.take(FACTOR)
    squares = [each.gradient.whole.double().square().sum() for each in found]
    torch.testing.assert_close(norm, torch.stack(squares).sum().to(norm), rtol=1e-6, atol=0.0)
    for ours, each in zip(found, alone, strict=True):
        adam(each.flat, each.gradient, rates=each.rates)
        for one, right in zip(ours.flat, each.flat, strict=True):
            assert one is right or torch.equal(one, right)


@pytest.mark.parametrize("rows", [[-1, 3], [3, -1], [3, 50], [50, 3]], ids=str)
def test_a_gradient_of_a_row_that_is_not_there_is_refused(rows):
    gradient = torch.sparse_coo_tensor([rows], torch.ones(2, 8), (50, 8), check_invariants=False)
    for parts in ([gradient], [gradient, torch.ones(4)]):
        with pytest.raises(IndexError, match="a table has rows 0 to 49, and a gradient rows"):
            Gradient(parts)
