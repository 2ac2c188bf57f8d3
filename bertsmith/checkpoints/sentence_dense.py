"""The weights of a sentence-transformers Dense module <-> the dense layer of sentence vectors.

What a file holds is compared with what its settings say, before anything is computed. It does not
know what goes in and what comes out.

Source: sentence-transformers, Dense.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints.places import WEIGHTS
from bertsmith.checkpoints.sentence_transformers import dense_directory
from bertsmith.checkpoints.weights import module_tensors
from bertsmith.model.pooling import Dense
from bertsmith.model.sentence import SentenceConfig
from bertsmith.tensor_files import save_tensors

_PREFIX = "sentence.dense."


def read(
    directory: Path, config: SentenceConfig | None, hidden_size: int, dtype: torch.dtype
) -> Dense | None:
    """The layer that the config names, its weights as `dtype`; None for no such layer.

    Raises FileNotFoundError or ValueError, naming the file, for weights that are missing, broken or
    of other shapes.
    """
    folder = dense_directory(directory)
    if config is None or config.dense is None or folder is None:
        return None
    pooled = len(config.pooling) * hidden_size
    if config.dense.in_features != pooled:
        raise ValueError(
            f"{folder}: the dense layer takes {config.dense.in_features:,} numbers (in_features), "
            f"but {' and '.join(config.pooling)} pooling of hidden states of {hidden_size:,} gives "
            f"{pooled:,}: they do not belong together"
        )
    with torch.device("meta"):
        dense = Dense(config.dense)
    tensors = module_tensors(folder)
    expected = {name: tuple(tensor.shape) for name, tensor in dense.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    if found != expected:
        raise ValueError(
            f"{folder}: its settings ask for the tensors {_shapes(expected)}, its weights are "
            f"{_shapes(found)}: copy or download the directory again"
        )
    if bad := [name for name, tensor in sorted(tensors.items()) if not _is_finite(tensor)]:
        raise ValueError(
            f"{folder}: {' and '.join(bad)} holds NaN, infinity or no floating-point numbers: copy "
            f"or download the directory again, or take an earlier checkpoint of its training"
        )
    state = {name: tensor.to(dtype) for name, tensor in tensors.items()}
    dense.load_state_dict(state, assign=True)
    return dense.eval()


def dense_state(dense: Dense | None) -> dict[str, Tensor]:
    """Its parameters under names of our own; none without a layer."""
    state = {} if dense is None else dense.state_dict()
    return {f"{_PREFIX}{name}": tensor for name, tensor in state.items()}


def filled(config: SentenceConfig | None, state: Mapping[str, Tensor]) -> Dense | None:
    """The layer that the config names with the tensors of `state`, by their own names."""
    if config is None or config.dense is None:
        return None
    with torch.device("meta"):
        dense = Dense(config.dense)
    dense.load_state_dict(_own(state), assign=True)
    return dense.eval()


def write(directory: Path, state: Mapping[str, Tensor]) -> None:
    """Writes what `state` holds of the layer, by the tensors' own names, beside its settings."""
    folder = dense_directory(directory)
    if folder is not None:
        tensors = {name: tensor.contiguous() for name, tensor in _own(state).items()}
        save_tensors(folder / WEIGHTS, tensors, {"format": "pt"})


def _own(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Without the prefix, those that have it."""
    own = {name: tensor for name, tensor in state.items() if name.startswith(_PREFIX)}
    return {name.removeprefix(_PREFIX): tensor for name, tensor in own.items()}


def _is_finite(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and bool(tensor.isfinite().all())


def _shapes(shapes: Mapping[str, tuple[int, ...]]) -> str:
    return ", ".join(f"{name} {shape}" for name, shape in sorted(shapes.items())) or "none"
