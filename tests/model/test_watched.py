"""Whether somebody hooked into one of several modules."""

from collections.abc import Callable
from typing import Any

import pytest
from torch import nn
from torch.nn.modules import module as of_all
from torch.utils.hooks import RemovableHandle

from bertsmith.model.watched import is_watched

HOOKS: list[Callable[[nn.Module], RemovableHandle]] = [
    lambda module: module.register_forward_hook(_nothing),
    lambda module: module.register_forward_pre_hook(_nothing),
    lambda module: module.register_full_backward_hook(_nothing),
    lambda module: module.register_full_backward_pre_hook(_nothing),
    lambda module: of_all.register_module_forward_hook(_nothing),
    lambda module: of_all.register_module_full_backward_hook(_nothing),
]


def _nothing(*given: Any) -> None:
    """A hook."""


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("hook", HOOKS)
def test_one_hook_is_found_and_not_once_it_is_gone(
    hook: Callable[[nn.Module], RemovableHandle], place: int
) -> None:
    modules = [nn.Linear(2, 2) for _ in range(3)]
    assert not is_watched(*modules)
    handle = hook(modules[place])
    assert is_watched(*modules)
    handle.remove()
    assert not is_watched(*modules)


def test_a_forward_of_its_own_is_found() -> None:
    modules = [nn.Linear(2, 2) for _ in range(3)]
    modules[2].forward = _nothing  # type: ignore[assignment,method-assign]
    assert is_watched(*modules)
