"""What is asked of kernels in Triton without a GPU: to run interpreted, and to fit into one."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import pytest
import torch

IS_HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
SHARED_BYTES = 99 * 1024
"""Of a program: the least that a GPU of these capabilities has, 3.x of which run on newer ones."""


def patch_triton_once_a_function() -> None:
    """In a process that interprets: what kernels call does not patch Triton's language each time.

    What the first call patches stays so, and each call after it took a third of all the time.
    """
    from triton.runtime import interpreter

    patch = functools.cache(interpreter._patch_lang)

    def called(function, *arguments, **named):
        patch(function.fn)
        return function.rewrite()(*arguments, **named)

    interpreter.InterpretedFunction.__call__ = called


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
