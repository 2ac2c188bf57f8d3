"""Attention by a GPU's kernels beside that of the blocks, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_attention

Triton looks for the variable once, when it is first imported. In float16, not bfloat16: its
interpreter multiplies with numpy, which has none.
"""

from __future__ import annotations

import itertools
import json

import torch

from bertsmith.model import block_attention, flash_attention
from bertsmith.model.block_attention import AttentionRules
from bertsmith.model.config import Direction
from bertsmith.model.dropout import site_words
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed

LENGTHS = [5, 64, 1, 33, 70]  # of 173 rows, which are filled up to 176
DIRECTIONS: list[Direction] = ["bidirectional", "left_to_right", "right_to_left"]
HEADS = [(2, 16, 0.0, "float32"), (3, 24, 0.3, "float32"), (1, 64, 0.1, "float16")]
"""How many, their size, dropout, and what they are computed in."""
CASES = [
    *itertools.product(DIRECTIONS, HEADS),
    ("bidirectional", (2, 8, 0.1, "float32")),
    ("bidirectional", (1, 128, 0.1, "float16")),
]


def errors(direction: Direction, heads: tuple[int, int, float, str]) -> list[float]:
    """Of contexts and gradients, against the blocks in float64, as shares of their size."""
    num_heads, head_size, probability, name = heads
    dtype = getattr(torch, name)
    rules = AttentionRules(num_heads=num_heads, direction=direction, probability=probability)
    stream = Stream.of(random_packed(LENGTHS, 60), dropout=(5, 2), is_rounded=True)
    num_rows, width = len(stream.token_ids), num_heads * head_size
    words = site_words(stream.row_keys, 3, 0) if probability else None
    generator = torch.Generator().manual_seed(head_size)
    qkv = torch.randn((num_rows, 3 * width + 1), generator=generator)[:, 1:]  # not contiguous
    if name == "float32":
        qkv[:, :width] *= 30.0  # scores whose exponentials are beyond float32
    qkv, weights = qkv.to(dtype), torch.randn((num_rows, width), generator=generator).to(dtype)
    found = []
    for attend, computed in (
        (block_attention.attend, torch.float64),
        (flash_attention.attend, dtype),
    ):
        inputs = qkv.to(computed).requires_grad_()
        context = attend(inputs, words, stream, rules)
        (context * weights.to(computed)).sum().backward()
        assert inputs.grad is not None
        found.append((context.detach().double(), inputs.grad.double()))
    return [float((b - a).norm() / a.norm()) for a, b in zip(*found, strict=True)]


if __name__ == "__main__":
    # What is not written is then not a number, and would be seen.
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        print(json.dumps(errors(*case)), flush=True)
