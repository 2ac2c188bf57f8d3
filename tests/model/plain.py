"""The plain definition of the encoder, one sequence at a time: what the packed model must equal."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.model.bert import Bert


def plain_hidden(bert: Bert, token_ids: Tensor, segment_ids: Tensor) -> Tensor:
    """Final hidden states (n, H) of one sequence, by textbook operations, without dropout."""
    config, embeddings = bert.config, bert.embeddings
    hidden = (
        embeddings.token.weight[token_ids]
        + embeddings.segment.weight[segment_ids]
        + embeddings.position.weight[: len(token_ids)]
    )
    hidden = plain_norm(hidden, embeddings.norm)
    for layer in bert.layers:
        attention, feed_forward = layer.attention, layer.feed_forward
        query, key, value = attention.qkv(hidden).split(config.hidden_size, dim=1)
        contexts = []
        for head in range(config.num_attention_heads):
            columns = slice(head * config.head_size, (head + 1) * config.head_size)
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(config.head_size)
            scores = scores + plain_bias(len(token_ids), config.direction, scores.dtype)
            contexts.append(torch.softmax(scores, dim=1) @ value[:, columns])
        hidden = plain_norm(hidden + attention.output(torch.cat(contexts, dim=1)), attention.norm)
        inner = functional.gelu(feed_forward.up(hidden))
        hidden = plain_norm(hidden + feed_forward.down(inner), feed_forward.norm)
    return hidden


def plain_bias(length: int, direction: str, dtype: torch.dtype) -> Tensor:
    """(n, n): 0 where a query (row) may see a key (column), minus infinity elsewhere."""
    visible = {
        "bidirectional": torch.ones(length, length),
        "left_to_right": torch.ones(length, length).tril(),
        "right_to_left": torch.ones(length, length).triu(),
    }[direction]
    return visible.to(dtype).log()


def plain_norm(rows: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    centred = rows - rows.mean(dim=1, keepdim=True)
    variance = centred.square().mean(dim=1, keepdim=True)
    return centred / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def random_packed(lengths: list[int], vocab_size: int, seed: int = 0) -> PackedBatch:
    random = np.random.default_rng(seed)
    total = sum(lengths)
    return PackedBatch(
        token_ids=random.integers(5, vocab_size, total).astype(np.int32),
        segment_ids=random.integers(0, 2, total).astype(np.int32),
        lengths=np.array(lengths, dtype=np.int32),
        keys=np.arange(len(lengths)),
    )


def random_pretrain_batch(lengths: list[int], vocab_size: int, seed: int = 0) -> PretrainBatch:
    packed = random_packed(lengths, vocab_size, seed)
    random = np.random.default_rng(seed + 1)
    num_targets = max(1, packed.num_tokens // 7)
    return PretrainBatch(
        packed=packed,
        target_rows=np.sort(random.choice(packed.num_tokens, num_targets, replace=False)),
        target_ids=random.integers(5, vocab_size, num_targets).astype(np.int32),
        next_labels=random.integers(0, 2, len(lengths)).astype(np.int8),
        step_targets=num_targets,
        step_sequences=len(lengths),
    )
