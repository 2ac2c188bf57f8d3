"""A loaded model -> one that only answers: on its device, in its precision, its weights laid out.

Eight bits are a precision for answers alone: training knows none of them. This file does not know
questions.
"""

from __future__ import annotations

from typing import get_args

import torch
from torch import nn

from bertsmith.model.int8_weights import Int8Weights, multiplies_int8
from bertsmith.model.layers import forget, lay_out
from bertsmith.model.linear import linears
from bertsmith.train.config import AnswerPrecision, Precision
from bertsmith.train.device import cast_, choose_precision


def rest_of(choice: AnswerPrecision, device: torch.device) -> Precision:
    """The precision of all that eight bits are not: attention, norms, embeddings, heads.

    Raises ValueError for a precision that the device has not, and for what is none.
    """
    if choice not in get_args(AnswerPrecision):
        expected = ", ".join(get_args(AnswerPrecision))
        raise ValueError(f"there is no precision {choice!r}: expected one of {expected}")
    if choice != "int8":
        return choose_precision(choice, device)
    if device.type != "cpu":
        raise ValueError(f"precision int8 is for CPUs, found device {device}: take device cpu")
    if not multiplies_int8():
        raise ValueError(
            "precision int8 needs a CPU that multiplies eight bits (AVX512-VNNI, AVX-VNNI or AMX) "
            "and PyTorch with oneDNN, which was tried here and failed: take precision auto"
        )
    rest = choose_precision("auto", device)
    return "fp32" if rest == "fp16" else rest  # of which products alone would be


def make_ready(model: nn.Module, choice: AnswerPrecision, device: torch.device) -> Precision:
    """Moves and casts a model in place and lays its weights out; returns what the rest became.

    `int8` rounds the matrices of the encoder's layers to eight bits, from the weights as they were
    loaded; of an LSTM's those of its gates' inputs. Raises ValueError as `rest_of`.
    """
    precision = rest_of(choice, device)
    model.to(device).eval()
    forget(model)
    rounded = [(each, Int8Weights(each.weight)) for each in linears(model) if choice == "int8"]
    cast_(model, precision)
    for each, weights in rounded:
        each.take(weights)
    lay_out(model)
    return precision
