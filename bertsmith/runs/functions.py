"""The functions in C++ that a run's steps on a CPU ask for: built before they begin, and known of.

One of them after the other, as steps meet them, would take several times as long. It does not know
what they do.
"""

from __future__ import annotations

from pathlib import Path

import torch

from bertsmith.model.cpu_sources import of_training
from bertsmith.native import build_together, library, multiplies_float16
from bertsmith.train import cpu_updates
from bertsmith.train.config import Precision
from bertsmith.train.device import dtype_of, rounds_products


def prepare_steps(precision: Precision, device: torch.device) -> None:
    """Builds what is not there yet, side by side; on another device nothing."""
    if device.type == "cpu":
        build_together(_sources(precision, device))


def are_there(precision: Precision, device: torch.device) -> bool:
    """Whether steps have them, all of them."""
    if device.type != "cpu" or (rounds_products(precision, device) and not multiplies_float16()):
        return False
    prepare_steps(precision, device)
    return all(library(each) is not None for each in _sources(precision, device))


def _sources(precision: Precision, device: torch.device) -> list[Path]:
    in_float16 = rounds_products(precision, device)
    return [*of_training(dtype_of(precision, device), in_float16=in_float16), cpu_updates.SOURCE]
