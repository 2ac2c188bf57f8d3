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
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import Direction
from bertsmith.model.dropout import site_words
from bertsmith.model.flash_attention import Asked
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed
from tests.model.triton_kernels import patch_triton_once_a_function

LENGTHS = [5, 64, 1, 33, 70]  # of 173 rows, which are filled up to 176
SHORT, LONG = [5, 64, 1, 33], [33, 130, 1]
DIRECTIONS: list[Direction] = ["bidirectional", "left_to_right", "right_to_left"]
HEADS = [(2, 16, 0.0, "float32"), (3, 24, 0.3, "float32"), (1, 64, 0.1, "float16")]
"""How many, their size, dropout, and what they are computed in."""
CASES = [
    *itertools.product(DIRECTIONS, HEADS, [LENGTHS]),
    *itertools.product(DIRECTIONS, HEADS[2:], [SHORT, LONG]),
    *itertools.product(DIRECTIONS, [(3, 24, 0.3, "float16")], [LENGTHS]),
    ("bidirectional", (2, 8, 0.1, "float32"), LENGTHS),
    ("bidirectional", (2, 16, 0.0, "float16"), LENGTHS),
    ("bidirectional", (1, 128, 0.1, "float16"), LENGTHS),
]


def errors(
    direction: Direction, heads: tuple[int, int, float, str], lengths: list[int]
) -> list[float]:
    """Of contexts, gradients and their sums, as shares of their size in float64 by the blocks."""
    num_heads, head_size, probability, name = heads
    dtype = getattr(torch, name)
    rules = AttentionRules(num_heads=num_heads, direction=direction, probability=probability)
    stream = Stream.of(random_packed(lengths, 60), dropout=(5, 2), is_rounded=True)
    num_rows, width = len(stream.token_ids), num_heads * head_size
    words = site_words(stream.row_keys, 3, 0) if probability else None
    generator = torch.Generator().manual_seed(head_size)
    qkv = torch.randn((num_rows, 3 * width + 1), generator=generator)[:, 1:]  # not contiguous
    if name == "float32":
        qkv[:, :width] *= 30.0  # scores whose exponentials are beyond float32
    qkv, weights = qkv.to(dtype), torch.randn((num_rows, width), generator=generator).to(dtype)
    inputs = qkv.double().requires_grad_()
    context = block_attention.attend(inputs, words, stream, rules)
    (context * weights.double()).sum().backward()
    assert inputs.grad is not None
    expected = context.detach(), inputs.grad, inputs.grad.sum(0)
    inputs = qkv.clone().requires_grad_()
    context = flash_attention.attend(inputs, words, stream, rules)
    assert context.grad_fn is not None
    made = context.grad_fn.saved_tensors[2:]  # what `forward` gave
    (context * weights).sum().backward()
    assert inputs.grad is not None
    asked = Asked(qkv=qkv.contiguous(), words=words, stream=stream, rules=rules)
    _, total = flash_attention.backward_and_sum(asked, made, weights)
    found = context.detach(), inputs.grad, total
    return [float((b - a).norm() / a.norm()) for a, b in zip(expected, found, strict=True)]


if __name__ == "__main__":
    patch_triton_once_a_function()
    # What is not written is then not a number, and would be seen.
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        print(json.dumps(errors(*case)), flush=True)
