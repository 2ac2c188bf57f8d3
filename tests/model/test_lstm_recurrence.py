"""The written-out backward pass keeps what it needs, and says what it cannot do."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from bertsmith.fusion import unfused
from bertsmith.model import recurrence
from bertsmith.model.recurrence import _step, recur


def small_recurrence() -> list[Tensor]:
    """Sums of nine rows and both matrices, in float64, with gradients."""
    shapes = ((9, 96), (96, 16), (16, 24))
    return [
        torch.randn(shape, dtype=torch.float64, generator=torch.manual_seed(1), requires_grad=True)
        for shape in shapes
    ]


def test_gradients_can_be_taken_twice_but_not_of_gradients() -> None:
    inputs = small_recurrence()
    loss = recur(*inputs, [4, 3, 2]).square().sum()
    first = torch.autograd.grad(loss, inputs, retain_graph=True)
    again = torch.autograd.grad(loss, inputs, retain_graph=True)
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)
    # What the cells held is kept as numbers: a gradient of these would be wrong, not missing.
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(loss, inputs, create_graph=True)


@pytest.mark.parametrize("frozen", [(0,), (1,), (0, 2), (1, 2)])
def test_what_needs_no_gradient_changes_no_other(frozen: tuple[int, ...]) -> None:
    expected = torch.autograd.grad(recur(*(inputs := small_recurrence()), [4, 3, 2]).sum(), inputs)
    inputs = small_recurrence()
    for place in frozen:
        inputs[place].requires_grad_(False)
    recur(*inputs, [4, 3, 2]).sum().backward()
    for place, (each, gradient) in enumerate(zip(inputs, expected, strict=True)):
        assert (each.grad is None) if place in frozen else torch.equal(each.grad, gradient)


def test_a_place_leaves_nothing_behind_where_nothing_is_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    steps: list[weakref.ref[Tensor]] = []
    most = 0

    def watched(total: Tensor, before: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        nonlocal most
        most = max(most, sum(each() is not None for each in steps))
        found = _step(total, before)
        steps.append(weakref.ref(found[0]))
        return found

    monkeypatch.setattr(recurrence, "_step", watched)
    inputs = small_recurrence()
    for is_learning, expected in ((True, 8), (False, 1)):
        steps.clear()
        most = 0
        with torch.set_grad_enabled(is_learning):
            recur(*inputs, [1] * 9)
        assert most == expected


class _Largest(TorchDispatchMode):
    """Remembers the numbers of the largest tensor that an operator made."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        if isinstance(made, Tensor):
            self.numel = max(self.numel, made.numel())
        return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_gradients_nothing_is_kept_for_them(dtype: torch.dtype) -> None:
    sums, *matrices = (each.detach().to(dtype) for each in small_recurrence())
    sums = sums.repeat(10, 1)
    for is_learning in (True, False):
        with _Largest() as largest, torch.set_grad_enabled(is_learning):
            recur(sums, *matrices, [1] * 90)
        assert (largest.numel >= sums.numel()) is is_learning


@pytest.mark.compiled
def test_compiled_steps_equal_the_plain_ones_in_values_and_gradients() -> None:
    inputs = small_recurrence()
    found = []
    for is_plain in (True, False):
        with unfused(is_plain):
            states = recur(*inputs, [4, 3, 2])
            found.append((states, *torch.autograd.grad(states.square().sum(), inputs)))
    for plain, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, plain, rtol=1e-10, atol=1e-10)
