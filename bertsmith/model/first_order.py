"""A backward pass written by hand -> the same, refused where it would have to be differentiated.

Autograd cannot differentiate such a pass: it would silently treat the tensors saved for it as
constants, and a second-order gradient would be wrong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def first_order(backward: Callable[..., Result]) -> Callable[..., Result]:
    """For the `backward` of an `autograd.Function`: raises RuntimeError under `create_graph`."""

    @functools.wraps(backward)
    def checked(ctx: Any, *gradients: Any) -> Result:
        if torch.is_grad_enabled():  # autograd's sign of create_graph
            raise RuntimeError(
                "a gradient of bertsmith's model cannot be differentiated again: leave out "
                "create_graph"
            )
        return backward(ctx, *gradients)

    return checked
