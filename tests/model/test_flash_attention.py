"""The attention of GPUs without one: Triton interprets its kernels, and compiles them all the same.

That it runs, and what it is worth, is for `test_gpu.py` and `make bench-gpu`.
"""

import importlib

import pytest
import torch

from benchmarks.gpu_instructions import TYPES, built
from bertsmith.model import flash_attention
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.flash_attention import (
    LAUNCH_OPTIONS,
    SHORT_OPTIONS,
    SHORT_TILE,
    SHORT_TILE_BACK,
    WIDEST_HEADS,
    kernel_constants,
    short_constants,
)
from tests.model.interpreted_attention import CASES
from tests.model.triton_kernels import SHARED_BYTES, interpreted

pytest.importorskip("triton")

# float32 and float16 have 24 and 11 bits, and scores of 100 lose six of them.
WITHIN = {"float32": 2e-5, "float16": 2e-3}


@pytest.fixture(scope="module")
def errors():
    """Of contexts and gradients, case by case."""
    return interpreted("tests.model.interpreted_attention")


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case}" for case in CASES])
def test_contexts_gradients_and_dropout_are_those_of_the_blocks(errors, number):
    assert len(errors) == len(CASES)
    precision = CASES[number][1][-1]
    assert all(error < WITHIN[precision] for error in errors[number])  # none is NaN


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", ["forward", "backward_of_queries", "backward_of_keys"])
@pytest.mark.parametrize(
    ("head_size", "dtype", "probability"),
    [(64, "bf16", 0.1), (64, "bf16", 0.0), (128, "bf16", 0.1), (64, "fp32", 0.1)],
)
def test_kernels_compile_for_gpus_that_are_not_here(
    capability, name, head_size, dtype, probability
):
    kernels = importlib.import_module("bertsmith.model.flash_kernels")
    kernel = getattr(kernels, f"attention_{name}")
    direction = "left_to_right" if probability else "right_to_left"
    rules = AttentionRules(num_heads=12, direction=direction, probability=probability)
    precision = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    assert head_size <= WIDEST_HEADS[precision]
    constants = kernel_constants(precision, head_size, rules, probability)
    if not probability:
        constants["words"] = None
    types = {**dict.fromkeys(kernel.arg_names, f"*{dtype}"), **TYPES}
    compiled = built(kernel, capability, types, constants, LAUNCH_OPTIONS)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("longest", [64, 128])
@pytest.mark.parametrize("probability", [0.1, 0.0])
@pytest.mark.parametrize(("name", "tile"), [("forward", SHORT_TILE), ("backward", SHORT_TILE_BACK)])
def test_the_kernels_of_short_sequences_compile_too(capability, longest, probability, name, tile):
    kernels = importlib.import_module("bertsmith.model.flash_short_kernels")
    kernel = getattr(kernels, f"attention_{name}")
    direction = "bidirectional" if probability else "right_to_left"
    rules = AttentionRules(num_heads=12, direction=direction, probability=probability)
    tiled = kernel_constants(torch.bfloat16, 64, rules, probability)
    constants = short_constants(torch.bfloat16, tiled, longest, tile)
    if not probability:
        constants["words"] = None
    compiled = built(kernel, capability, TYPES, constants, SHORT_OPTIONS)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]


@pytest.mark.parametrize(
    ("dtype", "head_size", "longest", "keys"),
    [
        (torch.bfloat16, 64, 1, 64),
        (torch.bfloat16, 64, 64, 64),
        (torch.float16, 32, 65, 128),
        (torch.bfloat16, 64, 128, 128),
        (torch.bfloat16, 64, 129, None),
        (torch.bfloat16, 128, 64, None),
        (torch.float32, 64, 64, None),
    ],
)
def test_one_program_holds_all_keys_where_it_can(dtype, head_size, longest, keys):
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.1)
    tiled = kernel_constants(dtype, head_size, rules, 0.1)
    constants = short_constants(dtype, tiled, longest, 32)
    assert (None if constants is None else constants["KEYS"]) == keys
    if constants is not None:  # launched by their order
        kernels = importlib.import_module("bertsmith.model.flash_short_kernels")
        for kernel in (kernels.attention_forward, kernels.attention_backward):
            assert kernel.arg_names[-len(constants) :] == list(constants)


def test_on_a_cpu_the_blocks_remain():
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    assert not flash_attention.suits(torch.zeros(3, 96), rules)
