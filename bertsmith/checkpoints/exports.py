"""A loaded model -> a directory in a chosen format, read back and compared.

One function writes, one proves: what was written is read again as a stranger would read it, and
every tensor, the config and the vocabulary must be the model's own. It knows no command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints import onnx, sentence_transformers, store, tensorflow
from bertsmith.checkpoints.config_json import config_to_json
from bertsmith.checkpoints.formats import Format, NumberType, refusal
from bertsmith.checkpoints.names import to_hugging_face
from bertsmith.checkpoints.places import CONFIG, GOOGLE_CONFIG
from bertsmith.checkpoints.store import Loaded
from bertsmith.files import write_json
from bertsmith.model.config import BertConfig
from bertsmith.model.padded import Output, PaddedBert
from bertsmith.model.sentence import SentenceConfig

TENSORFLOW_PREFIX = "bert_model.ckpt"
_NAMES_SHOWN = 4

_DTYPES: dict[NumberType, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


@dataclass(frozen=True, kw_only=True)
class Export:
    """What is to be written."""

    format: Format
    dtype: NumberType = "float32"
    """What numbers are stored as."""
    sentence: SentenceConfig | None = None
    """How sentence vectors are made: needed by sentence-transformers, an output more in ONNX."""
    outputs: tuple[Output, ...] = ()
    """What the ONNX graph gives; everything the model has for none."""


def write(directory: Path, loaded: Loaded, export: Export) -> tuple[str, ...]:
    """Writes the files into an existing, empty directory; returns notes on what its reader changes.

    Raises ValueError for a model that the format cannot hold, saying why, and for numbers that the
    type cannot; ModuleNotFoundError where the ONNX exporter is not installed.
    """
    config, model = loaded.config, loaded.model
    if fault := refusal(export.format, export.dtype, config, model.objectives):
        raise ValueError(f"this model cannot be written as {export.format}: {fault}")
    dtype, state = _DTYPES[export.dtype], expected_state(loaded, export)
    if export.format == "onnx":
        write_json(directory / CONFIG, config_to_json(config, model.objectives, export.dtype))
        loaded.tokenizer.save(directory)
        onnx.write(directory / onnx.FILE, padded(loaded, export))
    elif export.format == "tensorflow":
        notes = tensorflow.write_config(directory / GOOGLE_CONFIG, config)
        tensorflow.write(directory / TENSORFLOW_PREFIX, to_hugging_face(state))
        loaded.tokenizer.save(directory)
        return notes
    else:
        store.write(directory, state, config, loaded.tokenizer, dtype=dtype)
        if export.format == "sentence-transformers":
            assert export.sentence is not None
            sentence_transformers.write(directory, export.sentence, config.hidden_size)
    return ()


def verify(directory: Path, loaded: Loaded, export: Export) -> str:
    """Reads the directory back and says in a sentence what was compared.

    Raises ValueError where anything differs from the model.
    """
    if export.format == "onnx":
        found = onnx.check(directory / onnx.FILE, padded(loaded, export))
        return (
            f"largest difference from the packed model {found.largest:.1e}, in {found.runner} on "
            f"{found.num_batches} batches of other shapes"
        )
    expected = expected_state(loaded, export)
    back = store.load(directory, dtype=_DTYPES[export.dtype])
    faults = _differences(back.model.state_dict(), expected)
    if back.config != _as_read(loaded.config, export.format):
        faults.append("the config")
    if back.tokenizer.fingerprint != loaded.tokenizer.fingerprint:
        faults.append("the tokenizer")
    if export.format == "sentence-transformers" and back.sentence != export.sentence:
        faults.append("the pooling")
    if faults:
        more = f" and {len(faults) - _NAMES_SHOWN} more" if len(faults) > _NAMES_SHOWN else ""
        raise ValueError(
            f"what was written reads back otherwise than the model: "
            f"{', '.join(faults[:_NAMES_SHOWN])}{more}; it is not kept"
        )
    return f"read back, all {len(expected)} tensors equal to the bit, config and vocabulary equal"


def expected_state(loaded: Loaded, export: Export) -> dict[str, Tensor]:
    """The parameters that belong into the format, in its number type.

    sentence-transformers holds the encoder alone. Raises ValueError for a number too large for the
    type, and for a model that holds none at all.
    """
    dtype = _DTYPES[export.dtype]
    state = {name: tensor.to(dtype) for name, tensor in loaded.model.state_dict().items()}
    if export.format == "sentence-transformers":
        state = {name: tensor for name, tensor in state.items() if name.startswith("bert.")}
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(_not_finite(name, loaded.model.state_dict()[name], export.dtype))
    return state


def _not_finite(name: str, own: Tensor, dtype: NumberType) -> str:
    """Whose fault it is that a tensor is not finite in a type: the model's or the type's."""
    if num_broken := int((~torch.isfinite(own)).sum()):
        return (
            f"{name} holds {num_broken:,} of {own.numel():,} values that are nan or infinite in "
            f"the model itself, in any number type: its training failed; take an earlier checkpoint"
        )
    return f"{name} holds {float(own.abs().max()):.3g}, which {dtype} cannot; use --dtype float32"


def padded(loaded: Loaded, export: Export) -> PaddedBert:
    """The plain definition that the ONNX graph is made of, its own copy of the weights."""
    with torch.device("meta"):
        model = type(loaded.model)(
            loaded.config,
            loaded.model.objectives,
            with_pooler=loaded.model.bert.pooler is not None,
        )
    model.load_state_dict(expected_state(loaded, export), assign=True)
    return PaddedBert(model.eval(), export.outputs, export.sentence)


def _as_read(config: BertConfig, format: Format) -> BertConfig:
    """The config that comes back: bert_config.json has one word for both forms of GELU.

    It has none for the padding token, whose rows no reader looks at.
    """
    if format != "tensorflow":
        return config
    activation = "gelu" if config.hidden_act == "gelu_tanh" else config.hidden_act
    return replace(config, hidden_act=activation, tie_word_embeddings=True, pad_token_id=0)


def _differences(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    names = sorted({*found, *expected})
    return [
        name for name in names
        if name not in found or name not in expected or not _same(found[name], expected[name])
    ]  # fmt: skip


def _same(found: Tensor, expected: Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(found, expected)
