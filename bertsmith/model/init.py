"""A seed -> the first weights of a model: all initialisation, in one function.

Truncated normal for every matrix, the `[PAD]` row included; zero biases; LayerNorm one and zero;
scales one; the bias of a language model's forget gates one.
Each value is a function of (seed, parameter name, place), so adding a head changes no other weight.
It does not know what the modules do.

Source: google-research/bert, modeling.py, create_initializer (tf.truncated_normal_initializer);
the forget gates as tf.nn.rnn_cell.LSTMCell has them, with which ELMo was trained.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import torch
from torch import Tensor, nn

from bertsmith.randomness import Stream, uniform

_CUT = 2.0
_CHUNK = 2**20


def initialise(module: nn.Module, *, std: float, seed: int) -> None:
    """Fills every parameter: matrices from a normal of deviation `std` cut at two deviations.

    The real deviation is 0.88 of `std` (0.0176 for 0.02), because the tails are cut, as in the
    original.
    """
    for name, parameter in module.named_parameters():
        if parameter.ndim >= 2:
            values = truncated_normal(parameter.numel(), std, seed, zlib.crc32(name.encode()))
            parameter.data.copy_(values.view(parameter.shape))
        else:
            parameter.data.fill_(1.0 if name.endswith(("norm.weight", "scale")) else 0.0)
        if name.endswith("gates.bias"):
            parameter.data.chunk(4)[1].fill_(1.0)  # in the order of `recur`


def truncated_normal(size: int, std: float, *counters: int) -> Tensor:
    """(size,) float32 draws by the inverse distribution function, keyed by the counters."""
    tail = 0.5 * math.erfc(_CUT / math.sqrt(2.0))
    values = torch.empty(size)
    for start in range(0, size, _CHUNK):
        places = np.arange(start, min(start + _CHUNK, size))
        draws = uniform(counters[0], Stream.INIT, *counters[1:], places)
        quantiles = torch.from_numpy(tail + draws * (1.0 - 2.0 * tail))
        values[start : start + len(places)] = torch.special.ndtri(quantiles).float() * std
    return values
