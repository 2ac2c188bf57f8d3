"""A model's files, of any format -> its config, and its tensors under today's names.

In this order: safetensors in one file or in parts, a pickled `pytorch_model.bin` of which only
tensors are read, the original's TensorFlow checkpoint. Nothing in a file is ever run. It does not
know what the tensors make up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from bertsmith.checkpoints import pickled, tensorflow
from bertsmith.checkpoints.config_json import config_from_json
from bertsmith.checkpoints.left_aside import LeftAside
from bertsmith.checkpoints.misfits import Source
from bertsmith.checkpoints.names import modern_names
from bertsmith.checkpoints.places import (
    CONFIG,
    GOOGLE_CONFIG,
    PICKLED,
    PICKLED_INDEX,
    WEIGHTS,
    WEIGHTS_INDEX,
)
from bertsmith.checkpoints.prefixes import find_prefix
from bertsmith.files import DamagedError, read_json
from bertsmith.model.config import BertConfig

_POINTER = b"version https://git-lfs"


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What stands on disk, read but not yet matched with a module."""

    config: Mapping[str, object]
    """The content of the config."""
    tensors: Mapping[str, Tensor]
    """By their names in the Hugging Face layout, as `names` reads them."""
    left_aside: tuple[LeftAside, ...]
    """What was passed over."""
    source: Source
    """Where they were found."""


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
        prefix = find_prefix(place)
        if prefix is None:
            raise FileNotFoundError(
                f"{place} holds no weights: expected {WEIGHTS}, {PICKLED} or a TensorFlow "
                f"checkpoint (PREFIX.index with PREFIX.data-*)"
            )
        tensors, left_aside = tensorflow.read(prefix)
        is_original = True
    config = read_json(_config_file(directory))
    try:
        named = modern_names(tensors, is_tied=config.get("tie_word_embeddings") is not False)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from error
    return Weights(
        config=config,
        tensors=named,
        left_aside=left_aside,
        source=Source(where=str(place), is_original=is_original),
    )


def module_tensors(directory: Path) -> dict[str, Tensor]:
    """Those of a module that lies beside an encoder, by the names they have. Raises likewise."""
    has_pickle_alone = (directory / PICKLED).is_file() and not (directory / WEIGHTS).is_file()
    return _pickled(directory / PICKLED) if has_pickle_alone else _safetensors(directory / WEIGHTS)


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
        raise DamagedError(
            f"{path} ({path.stat().st_size:,} bytes) is no complete safetensors file ({error}); "
            f"copy or download it again"
        ) from error
    return tensors


def _pickled(path: Path) -> dict[str, Tensor]:
    _require(path)
    return pickled.read(path)


def _require(path: Path) -> None:
    """Raises where the file is not there, or only says where its content lies."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: copy or download the checkpoint again")
    with path.open("rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            raise ValueError(f"{path} is a pointer of Git LFS: `git lfs pull` brings the file")
