"""The attention of GPUs without one: Triton interprets its kernels, and compiles them all the same.

That it runs, and what it is worth, is for `test_gpu.py` and `make bench-gpu`.
"""

import importlib
import json
import os
import subprocess
import sys

import pytest
import torch

from bertsmith.model import flash_attention
from bertsmith.model.block_attention import AttentionRules
from bertsmith.model.flash_attention import LAUNCH_OPTIONS, WIDEST_HEADS, kernel_constants
from tests.model.interpreted_attention import CASES

pytest.importorskip("triton")

# Of a program; the least that a GPU of these capabilities has, 3.x of which run on newer ones too.
SHARED_BYTES = 99 * 1024
POINTERS = {"words": "*i32", "first_rows": "*i64", "last_rows": "*i64", "log_sums": "*fp32",
            "inner": "*fp32", "sums": "*fp32"}  # fmt: skip
NUMBERS = {"num_rows": "i32", "scale": "fp32", "gain": "fp32"}
# float32 and float16 have 24 and 11 bits, and scores of 100 lose six of them.
WITHIN = {"float32": 2e-5, "float16": 2e-3}


@pytest.fixture(scope="module")
def interpreted():
    """Errors of contexts and gradients, case by case."""
    pytest.importorskip("triton", minversion="3.7", reason="older interpreters refuse loops")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "BERTSMITH_FUSION": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.model.interpreted_attention"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case}" for case in CASES])
def test_contexts_gradients_and_dropout_are_those_of_the_blocks(interpreted, number):
    assert len(interpreted) == len(CASES)
    precision = CASES[number][1][-1]
    assert all(error < WITHIN[precision] for error in interpreted[number])  # none is NaN


@pytest.mark.parametrize("capability", [80, 90])
@pytest.mark.parametrize("name", ["forward", "backward_of_queries", "backward_of_keys"])
@pytest.mark.parametrize(
    ("head_size", "dtype", "probability"),
    [(64, "bf16", 0.1), (64, "bf16", 0.0), (128, "bf16", 0.1), (64, "fp32", 0.1)],
)
def test_kernels_compile_for_gpus_that_are_not_here(
    capability, name, head_size, dtype, probability
):
    compiled = built(capability, f"attention_{name}", head_size, dtype, probability)
    assert compiled.metadata.shared <= SHARED_BYTES
    assert compiled.asm["cubin"]


def built(capability, name, head_size, dtype, probability):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    kernel = getattr(importlib.import_module("bertsmith.model.flash_kernels"), name)
    direction = "left_to_right" if probability else "right_to_left"
    rules = AttentionRules(num_heads=12, direction=direction, probability=probability)
    precision = {"bf16": torch.bfloat16, "fp32": torch.float32}[dtype]
    assert head_size <= WIDEST_HEADS[precision]
    constants = kernel_constants(precision, head_size, rules, probability)
    if not probability:
        constants["words"] = None
    types = {**POINTERS, **NUMBERS, **dict.fromkeys(constants, "constexpr")}
    signature = {argument: types.get(argument, f"*{dtype}") for argument in kernel.arg_names}
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, argument in enumerate(kernel.arg_names)
        if signature[argument].startswith("*")
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=LAUNCH_OPTIONS)


def test_on_a_cpu_the_blocks_remain():
    rules = AttentionRules(num_heads=2, direction="bidirectional", probability=0.0)
    assert not flash_attention.suits(torch.zeros(3, 96), rules)
