"""What stands under the linear layer of a task head, on disk and in the module.

A BiLSTM is known by its tensors; which hidden states are read, and what of a sequence, by fields of
`config.json` that bertsmith alone writes. It knows no kinds of tasks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from torch import Tensor, nn

from bertsmith.checkpoints.names import BILSTM, LAYER_MIX
from bertsmith.model.config import BertConfig
from bertsmith.model.heads import TaskHead
from bertsmith.model.layer_choice import LayerChoice
from bertsmith.model.task import LSTM_LAYERS, LSTM_SIZE, HeadPooling, OnTop, TaskHeadConfig

LAYERS_FIELD, POOLING_FIELD = "bertsmith_layers", "bertsmith_pooling"
"""Only a config whose head reads something else than usual has them."""


@dataclass(frozen=True, kw_only=True)
class Below:
    """What a checkpoint says of a head beside its linear layer."""

    layers: str
    pooling: HeadPooling
    on_top: OnTop
    lstm_size: int
    lstm_layers: int
    width: int
    """Numbers that the linear layer reads."""


def find_below(
    tensors: Mapping[str, Tensor], content: Mapping[str, object], config: BertConfig
) -> Below:
    """As the tensors and the config's content tell it.

    Raises ValueError for layers that the encoder has not, and for what is no pooling.
    """
    choice = LayerChoice(name=str(content.get(LAYERS_FIELD) or "last"))
    width = choice.width(config.num_hidden_layers, config.hidden_size)
    said, known = content.get(POOLING_FIELD) or "pooler", get_args(HeadPooling)
    if said not in known:
        raise ValueError(f"{POOLING_FIELD} is {said!r}, expected one of {', '.join(known)}")
    recurrent = [name for name in tensors if name.startswith(f"{BILSTM}weight_hh_l")]
    forward = [name for name in recurrent if not name.endswith("_reverse")]
    size = tensors[forward[0]].shape[-1] if forward else LSTM_SIZE
    return Below(
        layers=choice.name,
        pooling=said,  # type: ignore[arg-type]
        on_top="bilstm" if forward else "nothing",
        lstm_size=size,
        lstm_layers=len(forward) or LSTM_LAYERS,
        width=2 * size if forward else width,
    )


def below_to_json(head: TaskHeadConfig) -> dict[str, object]:
    """The fields of `config.json` that `find_below` reads; none for what is as usual."""
    content: dict[str, object] = {}
    if head.layers != "last":
        content[LAYERS_FIELD] = head.layers
    if head.pooling != "pooler":
        content[POOLING_FIELD] = head.pooling
    return content


def parts_below(head: TaskHead) -> dict[str, nn.Module]:
    """The modules under the linear layer, by what their tensors' names on disk begin with."""
    parts: dict[str, nn.Module] = {}
    if head.bilstm is not None:
        parts[BILSTM] = head.bilstm.lstm
    if head.layer_mix is not None:
        parts[LAYER_MIX] = head.layer_mix
    return parts
