"""Padded input of three matrices -> hidden states, pooled vectors and logits: the plain definition.

The same weights as the packed model, by the textbook's operations alone: no fused kernels, no
dropout, no layout that depends on the lengths, so that it can be exported as one graph for any
number of sequences of any length. What stands where the mask is 0 weighs exactly nothing. It does
not know what format it is exported to.

Source: Devlin et al. 2018, section 3; Vaswani et al. 2017, section 3.2; the inputs and outputs are
named as in `transformers`' BertModel, BertForPreTraining and the classes for tasks.

Legend: N sequences, S the padded length, H hidden size, A heads, K = H/A, F feed-forward size,
V vocabulary, P poolings, D width of a sentence vector, C labels of a task.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.model.attention import SelfAttention
from bertsmith.model.config import Direction
from bertsmith.model.elementwise import activate, widened
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.heads import LanguageModelHead, TaskHead
from bertsmith.model.layer import Layer
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.pooling import Dense, finished
from bertsmith.model.sentence import Pooling, SentenceConfig

Output = Literal[
    "last_hidden_state", "pooler_output", "sentence_embedding", "logits", "start_logits",
    "end_logits", "seq_relationship_logits",
]  # fmt: skip
"""What can be asked for: (N, S, H), (N, H), (N, D), logits, (N, S) twice, and (N, 2). The
logits are a task head's, (N, C) or (N, S, C), else the language model's, (N, S, V)."""
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
"""(N, S) int64 each; the mask is 1 for real tokens, which come first in every row."""


def outputs_of(
    model: PretrainModel, sentence: SentenceConfig | None = None, head: TaskHead | None = None
) -> tuple[Output, ...]:
    """What a model can give, in `Output`'s order."""
    has_spans = head is not None and head.config.kind == "question_answering"
    has = {
        "pooler_output": model.bert.pooler is not None,
        "sentence_embedding": sentence is not None,
        "logits": model.masked_lm is not None or (head is not None and not has_spans),
        "start_logits": has_spans,
        "end_logits": has_spans,
        "seq_relationship_logits": model.next_sentence is not None,
    }
    return tuple(name for name in get_args(Output) if has.get(name, True))


class PaddedBert(nn.Module):
    """A model's own weights behind three padded inputs; gives `outputs` in the order named."""

    def __init__(
        self,
        model: PretrainModel,
        outputs: Sequence[Output] = (),
        sentence: SentenceConfig | None = None,
        head: TaskHead | None = None,
        dense: Dense | None = None,
    ) -> None:
        """All that the model can give, for no `outputs`; ValueError for those it cannot.

        `dense` is the layer that `sentence` names.
        """
        super().__init__()
        given = outputs_of(model, sentence, head)
        if unknown := [name for name in outputs if name not in given]:
            raise ValueError(
                f"this model gives no {' and no '.join(unknown)}; it gives {', '.join(given)}"
            )
        self.model = model
        self.head = head
        self.outputs = tuple(outputs) or given
        self.sentence = sentence
        self.dense = dense

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor
    ) -> tuple[Tensor, ...]:
        """Three (N, S) int64 inputs -> the outputs."""
        is_real = attention_mask.bool()  # (N, S)
        hidden = self._hidden(input_ids, is_real, token_type_ids)  # (N, S, H)
        found: dict[Output, Tensor] = {"last_hidden_state": hidden}
        if self._reads_pooled:
            found["pooler_output"] = self._pooled(hidden, is_real)  # (N, H)
        if "sentence_embedding" in self.outputs:
            assert self.sentence is not None
            found["sentence_embedding"] = sentence_vectors(
                hidden, is_real, self.sentence, self.dense
            )
        if self.head is not None:
            rows = hidden if self.head.config.reads_tokens else found["pooler_output"]
            found |= named_logits(self.head, self.head(rows))
        if "logits" in self.outputs and "logits" not in found:
            assert self.model.masked_lm is not None
            embedding = self.model.bert.token_embedding  # (V, H)
            found["logits"] = _language_model(self.model.masked_lm, hidden, embedding)  # (N, S, V)
        if "seq_relationship_logits" in self.outputs:
            assert self.model.next_sentence is not None
            found["seq_relationship_logits"] = self.model.next_sentence(found["pooler_output"])
        return tuple(found[name] for name in self.outputs)

    def is_a_row_a_token(self, output: Output) -> bool:
        """Whether an output has a row for every token, and not one for every sequence."""
        if output == "logits" and self.head is not None:
            return self.head.config.reads_tokens
        return output in ("last_hidden_state", "logits", "start_logits", "end_logits")

    @property
    def _reads_pooled(self) -> bool:
        is_scored = self.head is not None and not self.head.config.reads_tokens
        return is_scored or not {"pooler_output", "seq_relationship_logits"}.isdisjoint(
            self.outputs
        )

    def _hidden(self, input_ids: Tensor, is_real: Tensor, token_type_ids: Tensor) -> Tensor:
        config, embeddings = self.model.config, self.model.bert.embeddings
        assert isinstance(embeddings, Embeddings)
        rows = (
            functional.embedding(input_ids, embeddings.token.weight)
            + functional.embedding(token_type_ids, embeddings.segment.weight)
            + embeddings.position.weight[: input_ids.shape[1]]
        )  # (N, S, H)
        hidden = _norm(rows, embeddings.norm)
        visible = _visible(is_real, config.direction)  # (N, 1, 1 or S, S)
        activation = partial(activate, activation=config.hidden_act)
        for layer in self.model.bert.layers:
            assert isinstance(layer, Layer)
            hidden = _layer(layer, hidden, visible, activation)
        return hidden

    def _pooled(self, hidden: Tensor, is_real: Tensor) -> Tensor:
        pooler = self.model.bert.pooler
        assert pooler is not None
        row = hidden[:, 0]  # (N, H)
        if self.model.config.direction == "left_to_right":  # the last token has seen them all
            row = _last_rows(hidden, is_real)
        return torch.tanh(pooler(row))  # (N, H)


def named_logits(head: TaskHead, logits: Tensor) -> dict[Output, Tensor]:
    """A task head's (..., C) logits under the names of the outputs; spans have two, (...) each."""
    if head.config.kind != "question_answering":
        return {"logits": logits}
    start, end = logits.unbind(-1)
    return {"start_logits": start, "end_logits": end}


def sentence_vectors(
    hidden: Tensor, is_real: Tensor, config: SentenceConfig, dense: Dense | None
) -> Tensor:
    """(N, S, H) hidden states -> (N, D) float32 vectors, as `pooling.sentence_vectors`."""
    rows = hidden.float()
    pooled = torch.cat([_reduced(rows, is_real, each) for each in config.pooling], dim=1)
    return finished(pooled, config, dense)


def _reduced(rows: Tensor, is_real: Tensor, pooling: Pooling) -> Tensor:
    """(N, S, H) rows and (N, S) which of them are real -> (N, H)."""
    if pooling == "cls":
        return rows[:, 0]
    if pooling == "lasttoken":
        return _last_rows(rows, is_real)
    real = is_real[:, :, None]  # (N, S, 1)
    if pooling == "max":
        return rows.masked_fill(~real, torch.finfo(rows.dtype).min).amax(dim=1)
    places = torch.arange(1, rows.shape[1] + 1, device=rows.device)[:, None]  # (S, 1)
    weights = real * places if pooling == "weightedmean" else real  # (N, S, 1)
    total = weights.sum(dim=1).clamp(min=1)  # (N, 1)
    if pooling == "mean_sqrt_len_tokens":
        total = total.to(rows.dtype).sqrt()
    return (rows * weights).sum(dim=1) / total


def _last_rows(rows: Tensor, is_real: Tensor) -> Tensor:
    """(N, S, H) rows and (N, S) which of them are real -> (N, H)."""
    positions = torch.arange(rows.shape[1], device=rows.device)
    last = (positions * is_real).amax(dim=1)  # (N,)
    return rows.gather(1, last[:, None, None].expand(-1, 1, rows.shape[2])).squeeze(1)


def _visible(is_real: Tensor, direction: Direction) -> Tensor:
    """Which keys a query may see, (N, 1, S or 1, S)."""
    keys = is_real[:, None, None, :]  # (N, 1, 1, S)
    positions = torch.arange(is_real.shape[1], device=is_real.device)
    if direction == "left_to_right":
        return keys & (positions <= positions[:, None])
    if direction == "right_to_left":
        return keys & (positions >= positions[:, None])
    return keys


def _layer(
    layer: Layer, hidden: Tensor, visible: Tensor, activation: Callable[[Tensor], Tensor]
) -> Tensor:
    """(N, S, H) -> (N, S, H)."""
    attention, feed_forward = layer.attention, layer.feed_forward
    context = attention.output(_attend(attention, hidden, visible))
    hidden = _norm(widened(hidden) + widened(context), attention.norm)
    inner = activation(widened(feed_forward.up(hidden))).to(hidden.dtype)  # (N, S, F)
    output = feed_forward.down(inner)  # (N, S, H)
    return _norm(widened(hidden) + widened(output), feed_forward.norm)


def _attend(attention: SelfAttention, hidden: Tensor, visible: Tensor) -> Tensor:
    """(N, S, H) hidden states -> (N, S, H) contexts, heads side by side."""
    heads = attention.qkv(hidden).unflatten(2, (3, attention.rules.num_heads, -1))
    queries, keys, values = heads.permute(2, 0, 3, 1, 4).unbind(0)  # (N, A, S, K)
    scores = widened(queries @ keys.transpose(2, 3)) / math.sqrt(keys.shape[-1])  # (N, A, S, S)
    # The least finite number, not minus infinity: a row without any token is then no NaN.
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1).to(hidden.dtype)
    contexts: Tensor = (weights @ values).transpose(1, 2).flatten(2)  # (N, S, H)
    return contexts


def _language_model(head: LanguageModelHead, hidden: Tensor, embedding: Tensor) -> Tensor:
    """(N, S, H) -> (N, S, V)."""
    inner = activate(widened(head.dense(hidden)), head.activation).to(hidden.dtype)
    rows = _norm(inner, head.norm)  # (N, S, H)
    logits: Tensor = functional.linear(rows, head.decoder_weight(embedding), head.bias)
    return logits


def _norm(rows: Tensor, norm: nn.LayerNorm) -> Tensor:
    """LayerNorm made in at least float32, in the dtype of its weights."""
    wide, weight, bias = widened(rows), widened(norm.weight), widened(norm.bias)
    normed = functional.layer_norm(wide, weight.shape, weight, bias, norm.eps)
    return normed.to(norm.weight.dtype)
