"""A model with its first weights -> the same on its device, in its precision, with an optimizer.

It does not know what the model computes.
"""

from __future__ import annotations

import torch
from torch import nn

from bertsmith.files import keep_freed_memory
from bertsmith.train.config import OptimizerConfig, Precision
from bertsmith.train.device import cast_
from bertsmith.train.optimizer import Optimizer


def placed(
    model: nn.Module, config: OptimizerConfig, precision: Precision, device: torch.device
) -> Optimizer:
    """Moves and casts the model, and returns an optimizer without history that holds its weights.

    On a CPU the process keeps from then on the memory that it frees.
    """
    if device.type == "cpu":
        keep_freed_memory()
    first = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    model.to(device)
    cast_(model, precision)
    optimizer = Optimizer(model.named_parameters(), config)
    # The masters start from the weights as they were, not as bf16 rounded them.
    for name, master in optimizer.masters().items():
        master.copy_(first[name])
    return optimizer
