"""Google's original checkpoints <-> tensors under Hugging Face names, without TensorFlow.

A checkpoint is a tensor bundle (bert_model.ckpt.index and its data files) beside bert_config.json
and vocab.txt. What a training left in the bundle besides the weights is named; only the weights
take memory.

Source: google-research/bert, modeling.py (BertConfig, get_activation), optimization.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from bertsmith.checkpoints import tensor_bundle
from bertsmith.checkpoints.bundle_index import LAYOUTS, Entry
from bertsmith.checkpoints.left_aside import LeftAside
from bertsmith.checkpoints.tensor_bundle import TensorBundle
from bertsmith.checkpoints.tensorflow_names import google_name, hugging_face_name, is_transposed
from bertsmith.files import write_json
from bertsmith.model.config import Activation, BertConfig

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_OF_A_TRAINING = {"global_step", "beta1_power", "beta2_power"}
_OF_AN_OPTIMIZER = {
    "adam_m", "adam_v", "lamb_m", "lamb_v", "Adam", "Adam_1", "LAMB", "LAMB_1", "Momentum",
}  # fmt: skip

_ACTIVATIONS: dict[Activation, str] = {
    "gelu": "gelu", "gelu_tanh": "gelu", "relu": "relu", "tanh": "tanh",
}  # fmt: skip
_LAYER_NORM_EPS = 1e-12
_COPIED = (
    "attention_probs_dropout_prob", "hidden_dropout_prob", "hidden_size", "initializer_range",
    "intermediate_size", "max_position_embeddings", "num_attention_heads", "num_hidden_layers",
    "type_vocab_size", "vocab_size",
)  # fmt: skip
_TWO_GELUS = (
    "google-research/bert computed the exact GELU until commit bee6030 (2019-02-07) and the tanh "
    "approximation since; the two functions differ by at most 4.7e-4"
)


def read(prefix: Path) -> tuple[dict[str, Tensor], tuple[LeftAside, ...]]:
    """The weights, as stored, under Hugging Face names, and what was left aside.

    A variable that the original does not have keeps its name. Raises FileNotFoundError or
    ValueError, naming file, offset and variable, for whatever is missing or damaged.
    """
    bundle = TensorBundle.open(prefix)
    if _OBJECT_GRAPH in bundle.entries:
        raise ValueError(
            f"{prefix} is a checkpoint of TensorFlow 2's objects (it holds {_OBJECT_GRAPH}), "
            f"expected the variables of google-research/bert; write it again with the converter of "
            f"the project that it comes from"
        )
    aside = [name for name in bundle.entries if _is_of_a_training(name, bundle.entries)]
    wanted = [bundle.entries[name] for name in bundle.entries.keys() - set(aside)]
    no_numbers = sorted(
        entry.name for entry in wanted
        if entry.dtype not in LAYOUTS and not hugging_face_name(entry.name)
    )  # fmt: skip
    tensors = {}
    for entry in sorted(wanted, key=lambda entry: (entry.shard, entry.offset)):
        if entry.name not in no_numbers:
            name = hugging_face_name(entry.name) or entry.name
            tensors[name] = _tensor(bundle, entry)
    of_training = LeftAside(
        reason="of the training and its optimizer", names=tuple(aside), is_counted_by_kind=True
    )
    groups = (of_training, LeftAside(reason="no numbers", names=tuple(no_numbers)))
    return tensors, tuple(group for group in groups if group.names)


def write(prefix: Path, state: Mapping[str, Tensor]) -> None:
    """Writes parameters under Hugging Face names as a checkpoint that the original reads.

    The original reads float32 alone: half precision is widened, which keeps every value. Raises
    one ValueError that names every parameter which the original does not have.
    """
    unknown = [name for name in state if google_name(name) is None]
    if unknown:
        raise ValueError(
            f"no variable of google-research/bert for {', '.join(unknown)}: a TensorFlow "
            f"checkpoint can hold BERT with its pre-training heads (the decoder tied to the token "
            f"embedding), a classifier or a span head; leave the others out"
        )
    arrays = {}
    for name, tensor in state.items():
        if tensor.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(
                f"{name} holds {tensor.dtype}, expected torch.float32 or half precision: the "
                f"original reads nothing else; round it first"
            )
        google = google_name(name) or name
        array = tensor.detach().to("cpu", torch.float32).numpy()
        arrays[google] = array.T if is_transposed(google) else array
    tensor_bundle.write(prefix, arrays)


def write_config(path: Path, config: BertConfig) -> tuple[str, ...]:
    """Writes bert_config.json with the fields of the released ones; returns notes on what differs.

    Raises one ValueError that names everything that the original cannot compute.
    """
    faults = []
    if config.hidden_act not in _ACTIVATIONS:
        faults.append(f"hidden_act {config.hidden_act!r}, expected {' or '.join(_ACTIVATIONS)}")
    if config.layer_norm_eps != _LAYER_NORM_EPS:
        faults.append(f"layer_norm_eps {config.layer_norm_eps}, expected {_LAYER_NORM_EPS}")
    if config.direction != "bidirectional":
        faults.append(f"direction {config.direction!r}, expected 'bidirectional'")
    if faults:
        raise ValueError(
            f"google-research/bert cannot compute this model: {'; '.join(faults)}. Convert it to "
            f"another format"
        )
    content = {name: getattr(config, name) for name in _COPIED}
    content["hidden_act"] = _ACTIVATIONS[config.hidden_act]
    write_json(path, dict(sorted(content.items())))
    notes = []
    if content["hidden_act"] == "gelu":
        kind = "exact" if config.hidden_act == "gelu" else "tanh"
        notes.append(
            f'hidden_act is written as "gelu", the model has the {kind} form: {_TWO_GELUS}'
        )
    if config.pad_token_id != 0:
        notes.append(
            f"bert_config.json has no place for pad_token_id {config.pad_token_id}: "
            f"google-research/bert pads with 0 and masks it, which changes no vector"
        )
    return tuple(notes)


def config_notes(content: Mapping[str, object]) -> tuple[str, ...]:
    """What whoever reads a bert_config.json should know of it."""
    if content.get("hidden_act", "gelu") != "gelu":
        return ()
    return (f'hidden_act "gelu" is taken as the exact form: {_TWO_GELUS}',)


def _tensor(bundle: TensorBundle, entry: Entry) -> Tensor:
    array = bundle.read(entry.name)
    if is_transposed(entry.name):
        array = np.ascontiguousarray(array.T)
    return torch.from_numpy(array)


def _is_of_a_training(name: str, names: Iterable[str]) -> bool:
    """True for a counter, and for what an optimizer keeps beside a variable, under its name."""
    *parts, kind = name.split("/")
    owners = {"/".join(parts[:length]) for length in range(1, len(parts) + 1)}
    return kind in _OF_A_TRAINING | _OF_AN_OPTIMIZER or not owners.isdisjoint(names)
