"""The functions of `cpu_updates.cpp`, beside `updates.adam_in_one_pass`, the definition."""

import pytest
import torch
from torch import nn

from bertsmith.compiler import without_native
from bertsmith.train import cpu_updates, updates
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.cpu_updates import BLOCK, Sleepers
from bertsmith.train.flat import LARGE_ELEMENTS
from bertsmith.train.gradient import Gradient
from bertsmith.train.optimizer import Optimizer
from bertsmith.train.updates import Flat, Update
from tests.builds import NEEDS_COMPILER
from tests.train.one_run import RATES, adam, copied, drawn, squared_norm, tensor_rates

pytestmark = NEEDS_COMPILER

# A block and its neighbours, a vector and its neighbours.
SIZES = [1, 15, 16, 17, BLOCK - 1, BLOCK, 3 * BLOCK + 5, 20_001]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("has_copy", [True, False])
@pytest.mark.parametrize("size", SIZES)
def test_weights_moments_and_norm_are_those_of_the_definition(dtype, has_copy, size):
    flat, gradient = drawn(size, dtype, has_copy)
    exact = copied(flat, torch.float64)._replace(copy=None)
    updates.adam_in_one_pass(exact, gradient.double(), tensor_rates(torch.float64))
    adam(flat, Gradient([gradient]))
    for ours, right in zip(flat[:3], exact[:3], strict=True):
        assert (ours.double() - right).norm() <= 1e-6 * right.norm()  # of 24 bits
    if has_copy:
        assert torch.equal(flat.copy, flat.weight.bfloat16())
    norm = squared_norm(Gradient([gradient]))
    assert norm.dtype == torch.float32
    torch.testing.assert_close(norm.double(), gradient.double().square().sum(), rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("way", ["native", "definition", "torch"])
@pytest.mark.parametrize("size", SIZES)
def test_moments_too_small_for_a_whole_mantissa_are_zero(size, way, monkeypatch):
    """Every first moment without a gradient comes there, where a step took ten times as long."""
    flat, gradient = drawn(size, torch.float32, has_copy=True)
    tiny = torch.finfo(torch.float32).tiny
    flat.exp_avg.uniform_(0.5 * tiny, 2 * tiny).mul_(torch.randn(size).sign())
    flat.exp_avg_sq.uniform_(0.5 * tiny, 2 * tiny)
    gradient.zero_()
    expected = [flat.exp_avg * 0.9, flat.exp_avg_sq * 0.999]
    if way == "definition":
        updates.adam_in_one_pass(flat, gradient, tensor_rates())
    else:
        monkeypatch.setattr(updates, "is_eager_on_cpu", lambda gradient: True)
        with without_native(way == "torch"):
            adam(flat, Gradient([gradient]))
    for found, right in zip(flat[1:3], expected, strict=True):
        assert torch.equal(found, torch.where(right.abs() < tiny, 0.0, right))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_that_lie_apart_give_the_bits_of_the_same_laid_end_to_end(dtype):
    sizes = [2 * BLOCK, 1, 15, BLOCK - 16, BLOCK, 3 * BLOCK + 5, 7, 300]
    flat, drawn_gradient = drawn(sum(sizes), dtype, has_copy=True)
    other = copied(flat)
    apart = Gradient([each.clone() for each in drawn_gradient.split(sizes)])
    norms = [squared_norm(each) for each in (apart, Gradient([drawn_gradient]))]
    assert torch.equal(*norms)
    adam(flat, apart)
    assert "whole" not in vars(apart)  # nobody copied them
    adam(other, Gradient([drawn_gradient]))
    for ours, theirs in zip(flat, other, strict=True):
        assert torch.equal(ours, theirs)
    assert torch.equal(apart.whole, drawn_gradient)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_what_is_told_of_a_gradient_lies_in_memory_whatever_the_default_device(is_sparse):
    flat, numbers = drawn(8 * BLOCK, torch.float32, has_copy=True)
    rows = numbers.view(8, BLOCK)
    gradients = [rows.to_sparse(1)] if is_sparse else list(rows.clone().unbind())
    other = copied(flat)
    right = squared_norm(Gradient([numbers]))
    adam(other, Gradient([numbers]))
    there = Gradient(gradients)
    with torch.device("meta"):
        sleepers = Sleepers(len(numbers))
        norm = squared_norm(there, sleepers)
        adam(flat, there, sleepers)
    assert torch.equal(norm, right)
    for ours, theirs in zip(flat, other, strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("size", SIZES)
def test_a_sleeping_block_gets_the_bits_that_it_would_have_awake(dtype, size):
    flat, gradient = drawn(size, dtype, has_copy=True)
    sleeps = torch.arange(size) // BLOCK % 2 == 0
    for each in (flat.exp_avg, flat.exp_avg_sq, gradient):
        each[sleeps] = 0.0
    other, sleepers = copied(flat), Sleepers(size)
    squared_norm(Gradient([gradient]), sleepers)
    assert sleepers.awake.tolist() == [block % 2 for block in range(len(sleepers.awake))]
    adam(flat, Gradient([gradient]), sleepers)
    adam(other, Gradient([gradient]))
    for ours, theirs in zip(flat, other, strict=True):
        assert torch.equal(ours, theirs)


def weights_that_round_oddly():
    """Of all magnitudes; at and beside the middle of two copies; zeros, infinite, no numbers."""
    torch.manual_seed(0)
    drawn = torch.randn(30 * BLOCK) * torch.logspace(-44, 38, 30).repeat_interleave(BLOCK)
    usual = 0.02 * torch.randn(60 * BLOCK)
    halves = (usual[: 4 * BLOCK].view(torch.int32) & ~0xFFFF) + 0x8000
    beside = halves + torch.arange(4).repeat_interleave(BLOCK) - 1
    powers = torch.full((BLOCK,), 0.5)
    broken = torch.zeros(BLOCK)
    broken[:6] = torch.tensor([-0.0, 1e-40, -1e-45, torch.inf, -torch.inf, torch.nan])
    tiny = torch.zeros(BLOCK, dtype=torch.int32)
    tiny[3] = 0x18010  # of 2^-149: each decay that rounds up takes twice what it should
    last = 0.02 * torch.randn(BLOCK // 2 + 3)
    as_bits = [each.view(torch.float32) for each in (beside, tiny)]
    return torch.cat([drawn, usual, *as_bits, powers, broken, last])


def same_bits(ours, theirs):
    kind = {2: torch.int16, 4: torch.int32}[ours.element_size()]
    return torch.equal(ours.view(kind), theirs.view(kind))


@pytest.mark.parametrize("most_steps", [5, cpu_updates.MOST_STEPS])
def test_sleepers_decay_late_and_nobody_can_tell(most_steps, monkeypatch):
    """The copy is right after every step, the weights when they have settled, to the bit."""
    monkeypatch.setattr(cpu_updates, "MOST_STEPS", most_steps)
    weight = weights_that_round_oddly()
    moments, size = torch.zeros_like(weight), len(weight)
    late = Flat(weight.clone(), moments.clone(), moments.clone(), weight.bfloat16())
    at_once = Flat(weight.clone(), moments.clone(), moments.clone(), weight.bfloat16())
    sleepers, waited = Sleepers(size), 0
    for step in range(200):
        rate = [5.2e-4, 5e-5, 0.0, 1e-2 if step % 50 == 49 else 2e-5][step % 4]
        if step == 190:
            rate = -1e-2  # weights grow
        gradient = torch.zeros(size)
        gradient[step // 20 * 2 * BLOCK :][: BLOCK + 7] = 0.5  # wakes some every twenty steps
        squared_norm(Gradient([gradient]), sleepers)
        adam(late, Gradient([gradient]), sleepers, RATES._replace(learning_rate=rate))
        adam(at_once, Gradient([gradient]), rates=RATES._replace(learning_rate=rate))
        assert same_bits(late.copy, at_once.copy), step
        waited += int((late.weight != at_once.weight).sum())
    assert waited > 100 * size  # of 200 steps; most of it had not moved in most of them
    sleepers.settle(late)
    for ours, theirs in zip(late, at_once, strict=True):
        assert same_bits(ours, theirs)


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        *((torch.float32, value) for value in (1e-30, -1e-45, torch.nan, torch.inf)),
        *((torch.bfloat16, value) for value in (1e-30, -1e-40, torch.nan, torch.inf)),
    ],
    ids=str,
)
def test_the_smallest_gradient_and_a_broken_one_wake_their_block(dtype, value):
    """1e-30 has a square of nothing in float32; the others are of the least numbers there are."""
    gradient, sleepers = torch.zeros(5 * BLOCK - 3, dtype=dtype), Sleepers(5 * BLOCK - 3)
    gradient[2 * BLOCK + 7] = value
    squared_norm(Gradient([gradient]), sleepers)
    assert sleepers.awake.tolist() == [0, 0, 1, 0, 0]
    gradient[2 * BLOCK + 7], gradient[-1] = 0.0, value
    squared_norm(Gradient([gradient]), sleepers)
    assert sleepers.awake.tolist() == [0, 0, 1, 0, 1]


def test_who_is_awake_follows_from_the_moments():
    moments, sleepers = [torch.zeros(3 * BLOCK + 1) for _ in range(2)], Sleepers(3 * BLOCK + 1)
    sleepers.awake[0] = 1
    moments[0][BLOCK], moments[1][-1] = -1e-45, 1.0
    sleepers.wake_by(*moments)
    assert sleepers.awake.tolist() == [0, 1, 0, 1]


def table(dtype, width=128):
    torch.manual_seed(0)
    model = nn.Embedding(-(-LARGE_ELEMENTS // width), width)
    return model.to(dtype)


def take_steps(model, optimizer, steps, *, rate=1e-2, sparse=False):
    """A few rows of the table have gradients, other rows in other steps."""
    for step in steps:
        gradient = torch.zeros_like(model.weight)
        draws = torch.Generator().manual_seed(step)
        rows = torch.randperm(200, generator=draws)[:20].sort().values
        drawn_rows = torch.randn(20, model.embedding_dim, generator=draws).to(gradient.dtype)
        gradient[rows] = drawn_rows
        if sparse:
            gradient = torch.sparse_coo_tensor(rows[None], drawn_rows, gradient.shape)
        model.weight.grad = gradient
        optimizer.step(rate)


def trained(model, steps, state=None, start=0, *, native=True, sparse=False):
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig())
    if state is not None:
        optimizer.load_state(state)
    with without_native(not native):
        take_steps(model, optimizer, range(start, start + steps), sparse=sparse)
    return kept(optimizer), optimizer


def kept(optimizer):
    return {name: tensor.clone() for name, tensor in optimizer.state().items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_table_trains_as_by_the_definition_and_most_of_it_sleeps(dtype):
    found, optimizer = trained(table(dtype), 12)
    [group] = optimizer._groups
    assert 0 < int(group.sleepers.awake.sum()) <= 200 * 128 // BLOCK
    plain, _ = trained(table(dtype), 12, native=False)
    for name, tensor in found.items():
        # Weights of up to 5, and twelve updates that torch's own kernel rounds otherwise.
        torch.testing.assert_close(tensor, plain[name], rtol=1e-5, atol=5e-6, msg=name)


# Rows of half a block, of one, of three, and of what ends in the middle of one.
@pytest.mark.parametrize("width", [128, BLOCK, 3 * BLOCK, 100, 700])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_sparse_gradients_of_a_table_are_those_of_the_same_that_are_not(dtype, width, monkeypatch):
    dense = [table(dtype, width) for _ in range(2)]
    # The norm is a sum in another order; without clipping nothing else is.
    monkeypatch.setattr(Optimizer, "_clip_factor", lambda self, norm: torch.ones_like(norm))
    found, optimizer = trained(dense[0], 12, sparse=True)
    plain, other = trained(dense[1], 12)
    for name, tensor in found.items():
        assert torch.equal(tensor, plain[name]), name
    assert torch.equal(optimizer._groups[0].sleepers.awake, other._groups[0].sleepers.awake)
    by_definition, _ = trained(table(dtype, width), 12, native=False, sparse=True)
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, by_definition[name], rtol=1e-5, atol=5e-6, msg=name)


@pytest.mark.parametrize("width", [128, 700])
def test_the_norm_of_a_sparse_gradient_is_that_of_its_rows(width):
    rows = torch.tensor([0, 5, 6])
    values = torch.randn(3, width)
    gradient = torch.sparse_coo_tensor(rows[None], values, (50, width)).coalesce()
    found, expected = Sleepers(50 * width), Sleepers(50 * width)
    norm = squared_norm(Gradient([gradient]), found)
    torch.testing.assert_close(norm, values.square().sum())
    touched = torch.zeros(50, width)
    touched[rows] = 1.0
    squared_norm(Gradient([touched.reshape(-1)]), expected)
    assert torch.equal(found.awake, expected.awake)
    with without_native():
        torch.testing.assert_close(squared_norm(Gradient([gradient])), values.square().sum())


@pytest.mark.parametrize("sparse", [True, False])
def test_a_table_that_was_stopped_goes_on_to_the_bit(sparse):
    whole, _ = trained(table(torch.bfloat16), 12, sparse=sparse)
    state, _ = trained(table(torch.bfloat16), 5, sparse=sparse)
    again, _ = trained(table(torch.bfloat16), 7, state, start=5, sparse=sparse)
    for name, tensor in whole.items():
        assert torch.equal(tensor, again[name]), name


RATE = 1e-4
"""So little that most of a table waits for some dozens of steps."""


def table_and_optimizer():
    model = table(torch.bfloat16)
    return model, Optimizer(model.named_parameters(), OptimizerConfig())


def test_weights_that_were_asked_for_and_set_count_from_then_on():
    found = []
    for looks in (True, False):
        model, optimizer = table_and_optimizer()
        for step in range(40):
            if looks or step == 20:
                [master] = optimizer.masters().values()
            if step == 20:
                master[3000:4000] = 0.3
            take_steps(model, optimizer, [step], rate=RATE)
        found.append({**kept(optimizer), "copy": model.weight.detach()})
        assert torch.equal(model.weight, optimizer.masters()["weight"].bfloat16())
    for name, tensor in found[0].items():
        assert torch.equal(tensor, found[1][name]), name


def test_a_step_without_these_functions_begins_with_the_decays_that_wait():
    found = []
    for looks in (True, False):
        model, optimizer = table_and_optimizer()
        take_steps(model, optimizer, range(10), rate=RATE)
        if looks:
            optimizer.masters()
        with without_native():
            take_steps(model, optimizer, [10], rate=RATE)
        found.append(kept(optimizer))
    for name, tensor in found[0].items():
        assert torch.equal(tensor, found[1][name]), name


def test_a_state_that_comes_while_decays_wait_takes_their_place():
    model, optimizer = table_and_optimizer()
    take_steps(model, optimizer, range(5), rate=RATE)
    state = kept(optimizer)
    take_steps(model, optimizer, range(5, 12), rate=RATE)
    whole = kept(optimizer)
    take_steps(model, optimizer, range(12, 15), rate=RATE)
    optimizer.load_state(state)
    take_steps(model, optimizer, range(5, 12), rate=RATE)
    for name, tensor in kept(optimizer).items():
        assert torch.equal(tensor, whole[name]), name


def test_steps_without_these_functions_wake_all():
    """Or blocks that had gradients there would sleep on here."""
    model = table(torch.float32)
    _, optimizer = trained(model, 1)
    model.weight.grad = torch.ones_like(model.weight)
    with without_native():
        optimizer.step(1e-2)
    [group] = optimizer._groups
    assert group.sleepers.awake.all()


def test_threads_change_no_bit():
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 4):
            torch.set_num_threads(count)
            flat, gradient = drawn(200_001, torch.bfloat16, has_copy=True)
            for moment in (flat.exp_avg, flat.exp_avg_sq):
                moment.zero_()
            gradient[1_000:150_000], sleepers = 0.0, Sleepers(200_001)
            for _ in range(5):
                norm = squared_norm(Gradient([gradient]), sleepers)
                adam(flat, Gradient([gradient]), sleepers)
            sleepers.settle(flat)
            found.append([*flat, norm])
    finally:
        torch.set_num_threads(threads)
    for one, four in zip(*found, strict=True):
        assert torch.equal(one, four)


def test_what_they_do_not_take_is_left_to_the_definition():
    flat, gradient = drawn(100, torch.bfloat16, has_copy=True)
    suited = Update(flat, Gradient([gradient]), RATES)
    assert cpu_updates.suits(suited)
    assert not cpu_updates.suits(suited._replace(gradient=Gradient([gradient.double()])))
    assert not cpu_updates.suits(suited._replace(flat=flat._replace(weight=flat.weight.double())))
    assert not cpu_updates.suits(suited._replace(flat=flat._replace(copy=flat.weight.half())))
    with without_native():
        assert not cpu_updates.suits(suited)


def test_what_an_optimizer_holds_is_asked_large_pages_for(monkeypatch):
    asked = {}
    monkeypatch.setattr("bertsmith.train.flat.ask_for_large_pages", asked.__setitem__)
    parameter = nn.Parameter(torch.ones(LARGE_ELEMENTS // 64, 64, dtype=torch.bfloat16))
    [group] = Optimizer([("weight", parameter)], OptimizerConfig())._groups
    held = (group.weight, group.exp_avg, group.exp_avg_sq, group.copy)
    assert asked == {each.data_ptr(): each.numel() * each.element_size() for each in held}
    assert group.copy.data_ptr() == parameter.data_ptr()
