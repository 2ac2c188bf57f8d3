"""`config.json` <-> BertConfig, as `transformers` and the servers that follow it read and write it.

The fields of BertConfig keep the names of `config.json`, so this is a copy of equal names, three
translations (the activation's spelling, the direction, the objectives as an architecture), and a
refusal of everything that would compute something else than this package's encoder. What nothing
else computes is written as another type of model than a BERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import get_args

from bertsmith.checkpoints.task_heads import architecture_of, first_word, head_to_json
from bertsmith.model.config import Activation, BertConfig, Direction, LayerKind
from bertsmith.model.task import TaskHeadConfig

_NATIVE_ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu", "gelu_python": "gelu",
    "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh",
    "relu": "relu", "silu": "silu", "swish": "silu", "tanh": "tanh",
}  # fmt: skip
_WRITTEN_ACTIVATIONS: dict[Activation, str] = {"gelu_tanh": "gelu_new"}

_REQUIRED = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
    "max_position_embeddings", "type_vocab_size",
)  # fmt: skip
_COPIED = tuple(
    field.name
    for field in fields(BertConfig)
    if field.name not in ("hidden_act", "direction", "layer_kind")
)
_DEFAULTS = BertConfig()

DIRECTION_FIELD = "bertsmith_direction"
"""Only a config that bertsmith wrote has it."""
LAYER_KIND_FIELD = "bertsmith_layer_kind"
"""Only the config of a model without Transformer layers has it."""
# Nothing but bertsmith computes these. Under their own model types other readers refuse them, where
# under "bert" they would run a right-to-left one in both directions and answer nonsense.
_MODEL_TYPES: dict[tuple[LayerKind, Direction], str] = {
    ("transformer", "right_to_left"): "bert_right_to_left",
    ("transformer", "two_way"): "bert_two_way",
    ("lstm", "left_to_right"): "lstm_left_to_right",
    ("lstm", "right_to_left"): "lstm_right_to_left",
    ("lstm", "two_way"): "lstm_two_way",
}


def config_to_json(
    config: BertConfig,
    objectives: Iterable[str] = (),
    dtype: str = "float32",
    head: TaskHeadConfig | None = None,
) -> dict[str, object]:
    """The content of `config.json` for an encoder with these heads, stored in this number type.

    A task head names the architecture, whatever heads of pre-training lie beside it.
    """
    of_pretraining = _architecture(config, set(objectives))
    is_bert = config.layer_kind == "transformer"
    return {
        "architectures": [architecture_of(head, config) if head else of_pretraining],
        "model_type": _MODEL_TYPES.get((config.layer_kind, config.direction), "bert"),
        "hidden_act": _WRITTEN_ACTIVATIONS.get(config.hidden_act, config.hidden_act),
        **{name: getattr(config, name) for name in _COPIED},
        "position_embedding_type": "absolute",
        "is_decoder": is_bert and config.direction == "left_to_right",
        DIRECTION_FIELD: config.direction,
        **({} if is_bert else {LAYER_KIND_FIELD: config.layer_kind}),
        "dtype": dtype,
        **(head_to_json(head) if head else {}),
    }


def config_from_json(content: Mapping[str, object], where: str = "config.json") -> BertConfig:
    """The encoder that a `config.json` describes; fields that do not touch it are passed over.

    Raises one ValueError that names every missing, mistyped or unsupported field.
    """
    faults = [f"{name} is missing" for name in _REQUIRED if name not in content]
    faults += _mistyped(content)
    faults += _unsupported(content)
    if faults:
        raise ValueError(
            f"{where} does not describe a BERT that can be loaded: {'; '.join(faults)}"
        )
    values = {name: content[name] for name in _COPIED if content.get(name) is not None}
    chosen = {
        "hidden_act": _NATIVE_ACTIVATIONS[str(content.get("hidden_act") or "gelu")],
        "direction": _direction(content),
        "layer_kind": content.get(LAYER_KIND_FIELD) or "transformer",
    }
    try:
        config = BertConfig(**values, **chosen)  # type: ignore[arg-type]
        _require_type(content.get("model_type"), config)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return config


def _architecture(config: BertConfig, objectives: set[str]) -> str:
    if (config.layer_kind, config.direction) in _MODEL_TYPES:
        return first_word(config)
    if config.direction == "left_to_right":
        return "BertLMHeadModel" if "left_to_right_lm" in objectives else "BertModel"
    if {"masked_lm", "next_sentence"} <= objectives:
        return "BertForPreTraining"
    if "masked_lm" in objectives:
        return "BertForMaskedLM"
    return "BertForNextSentencePrediction" if "next_sentence" in objectives else "BertModel"


def _require_type(said: object, config: BertConfig) -> None:
    """Raises ValueError for a type of our own that the other fields do not make."""
    made = _MODEL_TYPES.get((config.layer_kind, config.direction), "bert")
    if said in _MODEL_TYPES.values() and said != made:
        raise ValueError(
            f"model_type is {said!r}, and {LAYER_KIND_FIELD} and {DIRECTION_FIELD} make it "
            f"{made!r}: write them as they were"
        )


def _direction(content: Mapping[str, object]) -> Direction:
    written = content.get(DIRECTION_FIELD)
    for direction in get_args(Direction):
        if written == direction:
            return direction  # type: ignore[no-any-return]
    return "left_to_right" if content.get("is_decoder") else "bidirectional"


def _mistyped(content: Mapping[str, object]) -> list[str]:
    """Faults of fields whose JSON type is not that of the config's field; null counts as absent."""
    faults = []
    for name in _COPIED:
        value = content.get(name)
        if value is None:
            if name in _REQUIRED and name in content:
                faults.append(f"{name} is null")
            continue
        wanted = type(getattr(_DEFAULTS, name))
        fits = isinstance(value, (int, float) if wanted is float else wanted)
        if not fits or isinstance(value, bool) is not (wanted is bool):
            faults.append(f"{name} is {value!r}, expected {wanted.__name__}")
    return faults


def _unsupported(content: Mapping[str, object]) -> list[str]:
    """Faults of fields under which the same weights would compute something else."""
    faults = []
    known = {
        "model_type": ("bert", *_MODEL_TYPES.values()),
        "position_embedding_type": ("absolute",),
        "add_cross_attention": (False,),
        "hidden_act": tuple(_NATIVE_ACTIVATIONS),
        DIRECTION_FIELD: get_args(Direction),
        LAYER_KIND_FIELD: get_args(LayerKind),
    }
    for name, choices in known.items():
        value = content.get(name)
        if value is not None and value not in choices:
            faults.append(f"{name} is {value!r}, expected {' or '.join(map(repr, choices))}")
    return faults
