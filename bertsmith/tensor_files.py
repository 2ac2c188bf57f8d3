"""Tensors -> a file of safetensors. It knows no names of tensors and no layout of directories."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

_NUMBER = re.compile(r"\(os error (\d+)\)")


def save_tensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Writes the file. Raises OSError, naming it, where the disk is full or refuses it otherwise.

    Not atomic by itself: write into the directory that `files.atomic_directory` gives.
    """
    try:
        save_file(dict(tensors), path, metadata=None if metadata is None else dict(metadata))
    except SafetensorError as error:
        found = _NUMBER.search(str(error))
        if found is None:
            raise OSError(f"{path} could not be written: {error}") from error
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error
