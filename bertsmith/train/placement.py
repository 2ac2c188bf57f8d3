"""A model with its first weights -> the same on its device, in its precision, with an optimizer.

It does not know what the model computes.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from bertsmith.memory import keep_freed_memory
from bertsmith.train.config import OptimizerConfig, Precision
from bertsmith.train.device import cast_
from bertsmith.train.flat import LARGE_ELEMENTS
from bertsmith.train.optimizer import Optimizer


@runtime_checkable
class Table(Protocol):
    """Rows that are looked up."""

    weight: Tensor
    leaves_sparse_gradients: bool
    """Whether the gradient holds only the rows that were looked up."""


def placed(
    model: nn.Module, config: OptimizerConfig, precision: Precision, device: torch.device
) -> Optimizer:
    """Moves and casts the model, and returns an optimizer without history that holds its weights.

    On a CPU the process keeps from then on the memory that it frees, and large tables leave sparse
    gradients, which this optimizer takes and torch's do not: `leave_sparse(model, False)` ends it.
    """
    if device.type == "cpu":
        keep_freed_memory()
    leave_sparse(model, device.type == "cpu")
    first = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.to(device)
    cast_(model, precision)
    optimizer = Optimizer(model.named_parameters(), config)
    # The masters start from the weights as they were, not as bf16 rounded them.
    for name, master in optimizer.masters().items():
        master.copy_(first[name])
    return optimizer


def leave_sparse(model: nn.Module, condition: bool = True) -> None:
    """Tells large tables whether to leave sparse gradients, small ones not to."""
    for module in model.modules():
        if isinstance(module, Table):
            is_large = module.weight.numel() >= LARGE_ELEMENTS
            module.leaves_sparse_gradients = condition and is_large
