"""The settings of one sentence-transformers module <-> what of a sentence vector it makes.

What this package does not compute is refused by name: the vectors would be others. It does not know
in which order modules stand, and reads no weights.

Source: sentence-transformers, the configs of its modules Pooling, Dense and Normalize.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

from bertsmith.files import read_json, write_json
from bertsmith.model.sentence import (
    LARGEST_WIDTH,
    DenseActivation,
    DenseConfig,
    Pooling,
    SentenceConfig,
)

CONFIG = "config.json"

# In the order in which sentence-transformers lays several side by side.
_MODES: dict[str, Pooling] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_FIRST_MODES: tuple[Pooling, ...] = ("cls", "max", "mean")
"""Those that every version knows, and that are therefore always named."""

_ACTIVATIONS: dict[DenseActivation, str] = {
    "tanh": "torch.nn.modules.activation.Tanh",
    "identity": "torch.nn.modules.linear.Identity",
}
_IN_AND_OUT = ("module_input_name", "module_output_name")


class OtherVectorsError(ValueError):
    """What this package computes would not be the vectors that a directory describes."""


def read_pooling(directory: Path) -> tuple[tuple[Pooling, ...], bool]:
    """The poolings in their order, and whether a prompt's tokens are pooled."""
    file = directory / CONFIG
    content = read_json(file)
    if named := content.get("pooling_mode"):  # since version 6: a name, or several in their order
        asked = [str(mode) for mode in (named if isinstance(named, list) else [named])]
    else:
        asked = [mode for key, mode in _MODES.items() if content.get(key)]
        asked += sorted(
            key
            for key in content.keys() - _MODES
            if key.startswith("pooling_mode") and content[key]
        )
    known: tuple[Pooling, ...] = get_args(Pooling)
    if unknown := [mode for mode in asked if mode not in known]:
        raise OtherVectorsError(
            f"{file} asks for {', '.join(unknown)}; the poolings made here are {', '.join(known)}"
        )
    poolings = tuple(mode for each in asked for mode in known if mode == each)
    return poolings or ("mean",), bool(content.get("include_prompt", True))


def write_pooling(directory: Path, config: SentenceConfig, hidden_size: int) -> None:
    """In the form of the early versions; where the order is another one, as since version 6."""
    asked: dict[str, object] = {
        key: mode in config.pooling
        for key, mode in _MODES.items()
        if mode in (*_FIRST_MODES, *config.pooling)
    }
    if config.pooling != tuple(each for each in _MODES.values() if each in config.pooling):
        asked = {"pooling_mode": list(config.pooling)}
    content = {
        "word_embedding_dimension": hidden_size,
        **asked,
        "include_prompt": config.is_prompt_pooled,
    }
    write_json(directory / CONFIG, content)


def read_dense(directory: Path) -> DenseConfig:
    """The layer, without its weights; ValueError for settings that are none."""
    file = directory / CONFIG
    content = read_json(file)
    _require_sentence(content, file)
    if content.get("use_residual"):
        raise OtherVectorsError(
            f"{file} adds what goes in to what comes out (use_residual), which is not done here"
        )
    return DenseConfig(
        in_features=_size(content, "in_features", file),
        out_features=_size(content, "out_features", file),
        has_bias=bool(content.get("bias", True)),
        activation=_activation(content, file),
    )


def write_dense(directory: Path, config: DenseConfig) -> None:
    """The settings alone."""
    content = {
        "in_features": config.in_features,
        "out_features": config.out_features,
        "bias": config.has_bias,
        "activation_function": _ACTIVATIONS[config.activation],
    }
    write_json(directory / CONFIG, content)


def check_normalize(directory: Path) -> None:
    """Refuses one of something else than the sentence's vector."""
    if (directory / CONFIG).is_file():  # early versions write none
        _require_sentence(read_json(directory / CONFIG), directory / CONFIG)


def _activation(content: Mapping[str, object], file: Path) -> DenseActivation:
    """The one that is named, as in the library tanh where none is."""
    named = str(content.get("activation_function", _ACTIVATIONS["tanh"]))
    package, _, kind = named.rpartition(".")
    for activation, known in _ACTIVATIONS.items():
        if kind == known.rpartition(".")[2] and f"{package}.".startswith("torch.nn."):
            return activation
    raise OtherVectorsError(
        f"{file} asks for the activation {named}; those made here are {', '.join(_ACTIVATIONS)}"
    )


def _size(content: Mapping[str, object], key: str, file: Path) -> int:
    size = content.get(key)
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= LARGEST_WIDTH:
        raise ValueError(f"{file}: {key} must be from 1 to {LARGEST_WIDTH:,}, found {size!r}")
    return size


def _require_sentence(content: Mapping[str, object], file: Path) -> None:
    for key in _IN_AND_OUT:
        if content.get(key) not in (None, "sentence_embedding"):
            raise OtherVectorsError(
                f"{file} names {content[key]!r} as {key}; here it is the sentence_embedding alone"
            )
