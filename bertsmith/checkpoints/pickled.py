"""A pickle as torch writes it -> its tensors, and nothing else of it.

Nothing in the file is ever run: torch's reader refuses everything that a pickle could run, and what
it refused is looked up among the pickle's instructions, which are only listed. It does not know
names of tensors.

Source: Python, pickletools; PyTorch, torch.load with weights_only.
"""

from __future__ import annotations

import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

# How torch names what a pickle would have run.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")
_OF_TENSORS = ("torch.", "collections.")
_MOST_PICKLES = 5
"""In one file: torch's older form puts four before the tensors' bytes."""


def read(path: Path) -> dict[str, Tensor]:
    """The tensors by their names; raises ValueError, naming the file, for everything else."""
    try:
        is_zip = zipfile.is_zipfile(path)  # since torch 1.6; only these can be mapped
        with warnings.catch_warnings():  # torch's remark on a newer pickle: it is refused below
            warnings.filterwarnings("ignore", message="Detected pickle protocol")
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # whatever broken bytes lead a reader of pickles to
        # Torch's own message advises to read it without this guard: it is not passed on.
        raise ValueError(f"{path} ({path.stat().st_size:,} bytes) {_fault(path, error)}") from error
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise ValueError(
            f"{path} holds {_contents(found)}, expected the tensors of a model by their names"
        )
    return {str(name): tensor for name, tensor in found.items()}


def _fault(path: Path, error: Exception) -> str:
    refused = _REFUSED.search(str(error))
    asked = [refused[1]] if refused else list(_asked_for(path))
    foreign = [name for name in asked if not name.startswith(_OF_TENSORS)]
    if foreign:
        return (
            f"is a pickle that asks for {foreign[0]}, which no tensor needs: to read it is to run "
            f"code. It was not read, and nothing in it was run. Take the model as safetensors, or "
            f"from somebody you trust"
        )
    if refused:
        return (
            f"asks for {asked[0]}, which no tensor needs: pickles can run code, so it is not read. "
            f"Copy it again if it is cut short, or write it as safetensors where you trust it"
        )
    return "is no complete file of tensors as torch writes them; copy or download it again"


def _asked_for(path: Path) -> Iterator[str]:
    """Every function or class that the pickle's instructions name, as module.name."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    if name.endswith("/data.pkl"):
                        with archive.open(name) as file:
                            yield from _globals(file)
        else:
            with path.open("rb") as file:
                for _ in range(_MOST_PICKLES):
                    yield from _globals(file)
    except (ValueError, UnicodeError, OSError, zipfile.BadZipFile):
        return  # cut short, or no pickle at all


def _globals(file: IO[bytes]) -> Iterator[str]:
    """Of one pickle; leaves the file behind it."""
    texts: list[str] = []
    for instruction, argument, _ in pickletools.genops(file):
        if instruction.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".")
        elif instruction.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:]) or "a function"
        elif isinstance(argument, str):
            texts.append(argument)


def _contents(found: object) -> str:
    if not isinstance(found, dict):
        return f"a {type(found).__name__}"
    kinds = {str(name): type(each).__name__ for name, each in found.items()}
    return ", ".join(f"{name}: {kind}" for name, kind in list(kinds.items())[:5])
