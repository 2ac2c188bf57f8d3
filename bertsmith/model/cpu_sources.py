"""Which functions in C++ a model's work on a CPU asks for, by the numbers that it computes with.

So that they are built side by side before it begins, and a run can say whether it has them. It does
not know what they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from bertsmith.model import (
    cpu_attention,
    cpu_dropout,
    cpu_embeddings,
    cpu_gelu,
    cpu_layer,
    cpu_linear,
    cpu_norm,
    cpu_pooled_scores,
    cpu_training_layer,
    cpu_vocabulary_loss,
    cpu_whole_loss,
    float16,
)
from bertsmith.model.linear import Linear
from bertsmith.native import TYPES, has_long_vectors, multiplies_bfloat16, multiplies_in_tiles


def of_training(dtype: torch.dtype, *, in_float16: bool = False) -> list[Path]:
    """Of steps in such numbers, whose products are made `in_float16` or not.

    Those for shapes that layers in one call do not take are among them.
    """
    modules = [cpu_embeddings, cpu_attention, cpu_dropout, cpu_norm]
    modules += [cpu_vocabulary_loss, cpu_whole_loss]
    is_half = dtype == torch.bfloat16
    if is_half:
        modules.append(cpu_gelu)
    if is_half and multiplies_bfloat16():
        modules += [cpu_pooled_scores, cpu_training_layer]
    if is_half and multiplies_in_tiles():
        modules.append(cpu_linear)
    sources = [each.SOURCE for each in modules]
    if dtype == torch.float32 and has_long_vectors() and not in_float16:
        sources.append(cpu_training_layer.FLOAT32_SOURCE)
    if in_float16:
        sources += [float16.SOURCE, cpu_whole_loss.FLOAT16_SOURCE]
    return sources


def of_answers(linears: Sequence[Linear]) -> list[Path]:
    """Of a model of these maps; none of one without, elsewhere, or of numbers that none takes."""
    if not linears or not linears[0].weight.is_cpu or linears[0].weight.dtype not in TYPES:
        return []
    modules = [cpu_embeddings, cpu_norm]
    if linears[0].weight.dtype == torch.bfloat16:
        modules.append(cpu_gelu)
    return [cpu_layer.source_of(linears), *(each.SOURCE for each in modules)]
