"""Processors that are not here: what their functions in C++ compute, tested all the same.

A header that is included before a source puts plain C++, or other instructions, in the place of
those that are not here.
"""

import hashlib
import os
import shlex
import shutil
from pathlib import Path
from typing import Literal, get_args

import pytest
import torch

from bertsmith import processors
from bertsmith.model.float16 import SOURCE
from bertsmith.native import call, takes
from tests.builds import IMITATION, has_tiles

Imitated = Literal["tiles", "float16"]
KINDS = get_args(Imitated)
_NEEDED = {"tiles": ("avx512_bf16", "avx512_vnni"), "float16": ()}
"""Beside the vectors of AVX512."""
_GIVEN = {"tiles": ("amx_tile", "amx_bf16", "amx_int8"), "float16": ("avx512_fp16",)}
FLOAT16_OPTION = "-DIMITATED_FLOAT16"
"""In the place of the one by which a compiler would write such instructions itself."""


def compiler_that_imitates(kind: Imitated) -> list[str]:
    """As CXX names it: the one it names now, which reads a header before every source, once.

    What is kept of a build bears the name of all these words.
    """
    given = shlex.split(os.environ.get("CXX", "")) or ["g++"]
    header = Path(__file__).with_name(f"{kind}.h")
    digest = hashlib.sha256(header.read_bytes()).hexdigest()
    imitation = ["-include", str(header), f"{IMITATION}_OF_{kind.upper()}={digest[:16]}"]
    return given if imitation[-1] in given else [*given, *imitation]


def imitate(kind: Imitated) -> None:
    """From now on everything is built for a matrix unit, or for products of float16.

    Ends the test run where the processor has what is asked for, and where nothing can stand in.
    """
    has = torch.cpu.get_capabilities()
    if any(has.get(name) for name in _GIVEN[kind]):
        pytest.exit(f"nothing to imitate: this processor has {kind}", returncode=0)
    is_broad = torch.backends.cpu.get_cpu_capability() == "AVX512"
    command = compiler_that_imitates(kind)
    if not (is_broad and all(map(has.get, _NEEDED[kind])) and shutil.which(command[0])):
        reason = f"no {command[0]}, or too old a processor"
        pytest.exit(f"nothing stands in for {kind}: {reason}", returncode=0)
    os.environ["CXX"] = shlex.join(command)
    imitated = {**has, **dict.fromkeys(_GIVEN[kind], True)}
    torch.cpu.get_capabilities = lambda: imitated
    if kind == "tiles":
        is_built = has_tiles()
    else:
        processors.OPTIONS["avx512_fp16"] = FLOAT16_OPTION
        numbers = torch.zeros(1)
        is_built = takes(SOURCE, numbers) and call(SOURCE, "multiplies", numbers) > 0.0
    if not is_built:
        pytest.exit(f"an imitation of {kind} was not built", returncode=1)
