"""A part of a model -> whether somebody looks into it or changed what it does.

What does the work of several parts in one call asks, and leaves the work to the parts then. It does
not know what they do.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def is_watched(module: nn.Module) -> bool:
    """Whether calling it would call other functions than its own, now or on the way back."""
    there = module._forward_hooks or module._forward_pre_hooks
    back = module._backward_hooks or module._backward_pre_hooks
    is_changed = "forward" in vars(module)
    return bool(there or back) or is_changed or _has_any_global_hook()  # type: ignore[no-untyped-call]
