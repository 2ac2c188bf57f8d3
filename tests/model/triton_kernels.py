"""What a GPU's kernels are asked without one: to run interpreted, and to be built."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

SHARED_BYTES = 99 * 1024
"""Of a program: the least that a GPU of these capabilities has, 3.x of which run on newer ones."""


def interpreted(module: str) -> list[list[float]]:
    """The lines of numbers that a module prints where Triton interprets its kernels."""
    pytest.importorskip("triton", minversion="3.7", reason="older interpreters refuse loops")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "BERTSMITH_FUSION": "0"}
    done = subprocess.run(
        [sys.executable, "-m", module],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def built(
    kernel: Any,
    capability: int,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    options: Mapping[str, int],
) -> Any:
    """A kernel for such a GPU: by the types of its arguments, all pointers being aligned."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    signature = {
        each: "constexpr" if each in constants else types[each] for each in kernel.arg_names
    }
    aligned = {
        (number,): [["tt.divisibility", 16]]
        for number, argument in enumerate(kernel.arg_names)
        if signature[argument].startswith("*")
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=dict(constants), attrs=aligned)
    return compile(source, target=GPUTarget("cuda", capability, 32), options=dict(options))
