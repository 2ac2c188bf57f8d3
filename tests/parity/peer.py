"""A `transformers` model with the weights of ours, attention by the plain definition."""

from __future__ import annotations

import torch

from bertsmith.checkpoints.config_json import config_to_json
from bertsmith.checkpoints.names import to_hugging_face
from bertsmith.model.objectives import PretrainModel


def peer_of(model: PretrainModel, attention: str = "eager") -> torch.nn.Module:
    """BertForPreTraining, or BertLMHeadModel for a left-to-right model; in training mode off."""
    import transformers

    content = config_to_json(model.config, model.objectives)
    config = transformers.BertConfig(**content)
    config._attn_implementation = attention
    left_to_right = model.config.direction == "left_to_right"
    kind = transformers.BertLMHeadModel if left_to_right else transformers.BertForPreTraining
    peer = kind(config).to(model.masked_lm.bias.dtype).eval()
    missing, unexpected = peer.load_state_dict(to_hugging_face(model.state_dict()), strict=False)
    assert not unexpected, unexpected
    assert all("decoder" in name or "position_ids" in name for name in missing), missing
    return peer
