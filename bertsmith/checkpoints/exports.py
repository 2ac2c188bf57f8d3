"""A loaded model -> a directory in a chosen format, read back and compared.

One function writes, one proves: what was written is read again as a stranger would read it, and
every tensor, the config and the vocabulary must be the model's own. It knows no command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import torch
from torch import Tensor

from bertsmith.checkpoints import onnx, sentence_dense, sentence_transformers, store, tensorflow
from bertsmith.checkpoints.config_json import config_to_json
from bertsmith.checkpoints.formats import Format, NumberType, head_refusal, refusal
from bertsmith.checkpoints.names import to_hugging_face
from bertsmith.checkpoints.places import CONFIG, GOOGLE_CONFIG
from bertsmith.checkpoints.store import Loaded
from bertsmith.checkpoints.task_heads import ORIGINAL_DROPOUT, fill_head, head_state
from bertsmith.files import write_json
from bertsmith.model.config import BertConfig
from bertsmith.model.heads import TaskHead
from bertsmith.model.padded import Output, PaddedBert
from bertsmith.model.sentence import SentenceConfig
from bertsmith.model.task import TaskHeadConfig, unnamed_labels

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
    task = loaded.head.config if loaded.head is not None else None
    if fault := refusal(export.format, export.dtype, config, model.objectives, task):
        raise ValueError(f"this model cannot be written as {export.format}: {fault}")
    dtype, state = _DTYPES[export.dtype], expected_state(loaded, export)
    if export.format == "onnx":
        content = config_to_json(config, model.objectives, export.dtype, task)
        write_json(directory / CONFIG, content)
        loaded.tokenizer.save(directory)
        onnx.write(directory / onnx.FILE, padded(loaded, export))
    elif export.format == "tensorflow":
        notes = tensorflow.write_config(directory / GOOGLE_CONFIG, config)
        tensorflow.write(directory / TENSORFLOW_PREFIX, to_hugging_face(state))
        loaded.tokenizer.save(directory)
        return notes
    else:
        head = written_head(loaded, export)
        own = {name: state[name] for name in loaded.model.state_dict() if name in state}
        store.write(directory, own, config, loaded.tokenizer, head=head, dtype=dtype)
        if export.format == "sentence-transformers":
            assert export.sentence is not None
            sentence_transformers.write(directory, export.sentence, config.hidden_size)
            sentence_dense.write(directory, state)
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
    state = {
        **back.model.state_dict(),
        **head_state(back.head),
        **sentence_dense.dense_state(back.dense),
    }
    faults = _differences(state, expected)
    if back.config != _as_read(loaded.config, export.format):
        faults.append("the config")
    task = back.head.config if back.head is not None else None
    if task != _head_as_read(written_head(loaded, export), export):
        faults.append("what the config says of the task head")
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
    return (
        f"read back, all {len(expected)} tensors equal {_rounding(expected, loaded, export)}, "
        f"{_equal_config(loaded.config, back.config)}"
    )


def _rounding(expected: Mapping[str, Tensor], loaded: Loaded, export: Export) -> str:
    """What the tensors written are equal to: the model's own, or these rounded."""
    own = _own_state(loaded, export)
    largest = max(
        float((tensor.double() - own[name].double()).abs().max())
        for name, tensor in expected.items()
    )
    if largest == 0.0:
        return "to the bit"
    return f"to the model's rounded to {export.dtype} (by {largest:.1e} at most)"


def _equal_config(own: BertConfig, read: BertConfig) -> str:
    """Which fields of the config a reader of the format sees otherwise, if any."""
    others = [
        f"{name} ({getattr(own, name)} in the model, {getattr(read, name)} as read back)"
        for name in (field.name for field in fields(own))
        if getattr(own, name) != getattr(read, name)
    ]
    if not others:
        return "config and vocabulary equal"
    return f"vocabulary equal, config equal but for {' and '.join(others)}"


def expected_state(loaded: Loaded, export: Export) -> dict[str, Tensor]:
    """The parameters that belong into the format, in its number type.

    sentence-transformers holds the encoder and the dense layer of its vectors alone. Raises
    ValueError for a number too large for the type, and for a model that holds none at all.
    """
    own = _own_state(loaded, export)
    state = {name: tensor.to(_DTYPES[export.dtype]) for name, tensor in own.items()}
    for name, tensor in state.items():
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(_not_finite(name, own[name], export.dtype))
    return state


def written_head(loaded: Loaded, export: Export) -> TaskHead | None:
    """The task head in the number type, its own copy; None where the format holds none."""
    head = loaded.head
    if head is None or head_refusal(export.format, head.config) is not None:
        return None
    with torch.device("meta"):
        copy = TaskHead(loaded.config, head.config)
    dtype = _DTYPES[export.dtype]
    fill_head(copy, {name: tensor.to(dtype) for name, tensor in head_state(head).items()})
    return copy


def _own_state(loaded: Loaded, export: Export) -> dict[str, Tensor]:
    """The parameters that belong into the format, as they are in the model."""
    state = loaded.model.state_dict()
    has_dense = export.sentence is not None and export.sentence.dense is not None
    dense = sentence_dense.dense_state(loaded.dense) if has_dense else {}
    if export.format == "sentence-transformers":
        encoder = {name: each for name, each in state.items() if name.startswith("bert.")}
        return {**encoder, **dense}
    head = loaded.head
    is_held = head is not None and head_refusal(export.format, head.config) is None
    return {**state, **dense, **(head_state(head) if is_held else {})}


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
    state, names = expected_state(loaded, export), model.state_dict().keys()
    model.load_state_dict({name: state[name] for name in names}, assign=True)
    head, dense = written_head(loaded, export), sentence_dense.filled(export.sentence, state)
    return PaddedBert(model.eval(), export.outputs, export.sentence, head, dense)


def _as_read(config: BertConfig, format: Format) -> BertConfig:
    """The config that comes back: bert_config.json has one word for both forms of GELU.

    It has none for the padding token, whose rows no reader looks at.
    """
    if format != "tensorflow":
        return config
    activation = "gelu" if config.hidden_act == "gelu_tanh" else config.hidden_act
    return replace(config, hidden_act=activation, tie_word_embeddings=True, pad_token_id=0)


def _head_as_read(head: TaskHead | None, export: Export) -> TaskHeadConfig | None:
    """What comes back: bert_config.json says nothing of a head, the original's code all else."""
    if head is None:
        return None
    if export.format != "tensorflow":
        return head.config
    kind = head.config.kind
    return TaskHeadConfig(
        kind=kind,
        labels=unnamed_labels(head.config.num_labels),
        dropout=ORIGINAL_DROPOUT[kind],
    )


def _differences(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> list[str]:
    names = sorted({*found, *expected})
    return [
        name for name in names
        if name not in found or name not in expected or not _same(found[name], expected[name])
    ]  # fmt: skip


def _same(found: Tensor, expected: Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(found, expected)
