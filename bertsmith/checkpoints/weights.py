"""A model's files, of any format -> its config, and its tensors under today's names.

In this order: safetensors in one file or in parts, a pickled `pytorch_model.bin` of which only
tensors are read, the original's TensorFlow checkpoint. Nothing in a file is ever run. It does not
know what the tensors make up.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bertsmith.checkpoints import tensorflow
from bertsmith.checkpoints.config_json import config_from_json
from bertsmith.checkpoints.left_aside import LeftAside
from bertsmith.checkpoints.names import modern_names
from bertsmith.checkpoints.places import (
    CONFIG,
    GOOGLE_CONFIG,
    PICKLED,
    PICKLED_INDEX,
    WEIGHTS,
    WEIGHTS_INDEX,
)
from bertsmith.files import read_json
from bertsmith.model.config import BertConfig

_POINTER = b"version https://git-lfs"
# How torch names what a pickle would have run.
_REFUSED = re.compile(r"Unsupported global: GLOBAL ([\w.]+)")


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What stands on disk, read but not yet matched with a module."""

    config: Mapping[str, object]
    """The content of the config."""
    tensors: Mapping[str, Tensor]
    """By their names in the Hugging Face layout, as `names` reads them."""
    left_aside: tuple[LeftAside, ...]
    """What was passed over."""
    is_original: bool = False
    """Whether they come from a checkpoint of google-research/bert."""


def read_weights(place: Path) -> Weights:
    """Reads a checkpoint's directory, or a TensorFlow checkpoint by its prefix.

    Raises FileNotFoundError or ValueError, naming the file, for what is missing or broken.
    """
    directory = place if place.is_dir() else place.parent
    left_aside: tuple[LeftAside, ...] = ()
    is_original = False
    if (directory / WEIGHTS).is_file() and place.is_dir():
        tensors = _safetensors(directory / WEIGHTS)
    elif (directory / WEIGHTS_INDEX).is_file() and place.is_dir():
        tensors = _parts(directory / WEIGHTS_INDEX, _safetensors)
    elif (directory / PICKLED).is_file() and place.is_dir():
        tensors = _pickled(directory / PICKLED)
    elif (directory / PICKLED_INDEX).is_file() and place.is_dir():
        tensors = _parts(directory / PICKLED_INDEX, _pickled)
    else:
        prefix = tensorflow.find_prefix(place)
        if prefix is None:
            raise FileNotFoundError(
                f"{place} holds no weights: expected {WEIGHTS}, {PICKLED} or a TensorFlow "
                f"checkpoint (*.ckpt.index)"
            )
        tensors, left_aside = tensorflow.read(prefix)
        is_original = True
    return Weights(
        config=read_json(_config_file(directory)),
        tensors=modern_names(tensors),
        left_aside=left_aside,
        is_original=is_original,
    )


def read_config(place: Path) -> tuple[BertConfig, tuple[str, ...]]:
    """The encoder that a checkpoint's config describes, and notes. Raises as `read_weights`."""
    file = _config_file(place if place.is_dir() else place.parent)
    content = read_json(file)
    notes = tensorflow.config_notes(content) if file.name == GOOGLE_CONFIG else ()
    return config_from_json(content, str(file)), notes


def _config_file(directory: Path) -> Path:
    for name in (CONFIG, GOOGLE_CONFIG):
        if (directory / name).is_file():
            return directory / name
    raise FileNotFoundError(f"{directory} has no {CONFIG} and no {GOOGLE_CONFIG}")


def _parts(index: Path, read: Callable[[Path], dict[str, Tensor]]) -> dict[str, Tensor]:
    """Every tensor of the parts that an index names."""
    parts = read_json(index).get("weight_map")
    if not isinstance(parts, dict) or not all(isinstance(each, str) for each in parts.values()):
        raise ValueError(f"{index} has no weight_map of names to files: copy it again")
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(parts.values())):
        tensors |= read(index.parent / Path(name).name)
    return tensors


def _safetensors(path: Path) -> dict[str, Tensor]:
    _require(path)
    try:
        tensors: dict[str, Tensor] = load_file(path)
    except SafetensorError as error:
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is no complete safetensors file ({error}); "
            f"copy or download it again{_pointer(path)}"
        ) from error
    return tensors


def _pickled(path: Path) -> dict[str, Tensor]:
    """Tensors alone: torch's reader refuses everything that a pickle could run."""
    _require(path)
    try:
        is_zip = zipfile.is_zipfile(path)  # since torch 1.6; only these can be mapped
        found = torch.load(path, map_location="cpu", weights_only=True, mmap=is_zip)
    except Exception as error:  # whatever broken bytes lead a reader of pickles to
        # Torch's own message advises to read it without this guard: it is not passed on.
        refused = _REFUSED.search(str(error))
        if refused:
            raise ValueError(
                f"{path} ({path.stat().st_size:,} bytes) asks for {refused[1]}, which no tensor "
                f"needs: pickles can run code, so it is not read. Copy it again if it is cut "
                f"short, or write it as safetensors where you trust it"
            ) from error
        raise ValueError(
            f"{path} ({path.stat().st_size:,} bytes) is no complete file of tensors as torch "
            f"writes them; copy or download it again{_pointer(path)}"
        ) from error
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise ValueError(
            f"{path} holds {_contents(found)}, expected the tensors of a model by their names"
        )
    return {str(name): tensor for name, tensor in found.items()}


def _contents(found: object) -> str:
    if not isinstance(found, dict):
        return f"a {type(found).__name__}"
    kinds = {str(name): type(each).__name__ for name, each in found.items()}
    return ", ".join(f"{name}: {kind}" for name, kind in list(kinds.items())[:5])


def _require(path: Path) -> None:
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: copy or download the checkpoint again")


def _pointer(path: Path) -> str:
    """What to add where the file only says where its content lies."""
    with path.open("rb") as file:
        is_pointer = file.read(len(_POINTER)) == _POINTER
    return " (it is a pointer of Git LFS: `git lfs pull` brings the file)" if is_pointer else ""
