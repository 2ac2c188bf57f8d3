"""Multi-head self-attention on a packed stream, with its projections, residual and norm.

Each token attends to its own sequence only. There are three implementations, equal up to rounding:
kernels that store no scores, on a GPU and on a CPU; torch's own kernels, for what these do not take
on a CPU without gradients; and for everything else the blocks of `block_attention`, which are the
definition.

Source: Devlin et al. 2018, section 3; Vaswani et al. 2017, section 3.2; google-research/bert,
modeling.py, attention_layer.

Legend: T rows, R rows asked for (all T if none are named), H hidden size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bertsmith.model import block_attention, cpu_attention, flash_attention
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import BertConfig
from bertsmith.model.dropout import ATTENTION_OUTPUT_SITE, ATTENTION_SITE, site_words
from bertsmith.model.inference_attention import attend_without_gradient
from bertsmith.model.linear import Linear, project_and_norm
from bertsmith.model.stream import Stream


class SelfAttention(nn.Module):
    """The attention sub-layer, with its residual and norm: (T, H) -> (T, H)."""

    def __init__(self, config: BertConfig, number: int) -> None:
        super().__init__()
        self.number = number
        self.dropout = config.hidden_dropout_prob
        self.rules = AttentionRules(
            num_heads=config.num_attention_heads,
            direction=config.direction,
            probability=config.attention_probs_dropout_prob,
        )
        self.qkv = Linear(config.hidden_size, 3 * config.hidden_size)
        self.output = Linear(config.hidden_size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden: Tensor, stream: Stream, rows: Tensor | None = None) -> Tensor:
        """Attends within each sequence, projects, adds the residual, normalises.

        With `rows` (R,), what follows attention is made for these alone, and queries too where
        they are few: (R, H). No hook of the projection is called then.
        """
        words = site_words(stream.row_keys, self.number, ATTENTION_SITE)
        if rows is None:
            context = attend(self.qkv(hidden), words, stream, self.rules)  # (T, H)
        else:
            asked = hidden.index_select(0, rows)  # (R, H)
            context, hidden = self._contexts_of(rows, asked, hidden, words, stream), asked  # (R, H)
        words = site_words(stream.keys_of(rows), self.number, ATTENTION_OUTPUT_SITE)
        return project_and_norm(self.output, context, hidden, words, self.dropout, self.norm)

    def _contexts_of(
        self, rows: Tensor, asked: Tensor, hidden: Tensor, words: Tensor | None, stream: Stream
    ) -> Tensor:
        """Of (R,) rows, which are (R, H) `asked`, among (T, H) hidden states: (R, H)."""
        qkv, width = self.qkv, hidden.shape[1]
        is_apart = (
            2 * len(rows) <= len(hidden)  # else apart they save less than they cost
            and qkv.ready_for(hidden) is None
            and not torch.is_autocast_enabled("cpu")  # which asks for another type of products
            and cpu_attention.suits(hidden, width, stream, self.rules)
        )
        if not is_apart:
            return attend(qkv(hidden), words, stream, self.rules).index_select(0, rows)  # (R, H)
        sizes = [width, 2 * width]
        weights, biases = torch.split(qkv.weight, sizes), torch.split(qkv.bias, sizes)
        queries = qkv.multiplied(asked, weights[0], biases[0])  # (R, H)
        keys_values = qkv.multiplied(hidden, weights[1], biases[1])  # (T, 2H)
        return cpu_attention.attend_from(queries, keys_values, words, stream, rows, self.rules)


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    if rules.probability == 0.0:
        words = None
    if flash_attention.suits(qkv, rules):
        return flash_attention.attend(qkv, words, stream, rules)
    if cpu_attention.suits(qkv, qkv.shape[1] // 3, stream, rules):
        return cpu_attention.attend(qkv, words, stream, rules)
    if words is None and qkv.device.type == "cpu" and not qkv.requires_grad:
        return attend_without_gradient(qkv, stream, rules.num_heads, rules.direction)
    return block_attention.attend(qkv, words, stream, rules)
