"""Modules -> whether one has hooks or a replaced `forward`.

A function that does the work of several modules in one call asks this first, and leaves the work to
the modules if so. It does not know what they do.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.module import _has_any_global_hook


def is_watched(*modules: nn.Module) -> bool:
    """Whether calling one would call other functions than its own, now or on the way back."""
    for module in modules:  # one loop: a short step waits for it
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module):
            return True
        if module._backward_hooks or module._backward_pre_hooks:
            return True
    return bool(_has_any_global_hook())  # type: ignore[no-untyped-call]
