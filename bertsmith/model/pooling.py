"""Hidden states -> one vector a text: what sentence embeddings are made of.

Special tokens count, as sentence-transformers counts them. It does not know what the vectors are
compared with.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; sentence-transformers, Pooling, Dense
and Normalize.

Legend: T tokens, N sequences, H hidden size, P poolings, D width of a vector (P * H without a dense
layer), n tokens of one sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.model.sentence import DenseActivation, DenseConfig, Pooling, SentenceConfig
from bertsmith.model.stream import Stream


class Dense(nn.Module):
    """What pooled hidden states go through: a linear layer and an activation, in float32."""

    def __init__(self, config: DenseConfig) -> None:
        super().__init__()
        self.linear = nn.Linear(config.in_features, config.out_features, bias=config.has_bias)
        self.activation = _ACTIVATIONS[config.activation]()

    def forward(self, pooled: Tensor) -> Tensor:
        """(..., P * H) float32 -> (..., D) float32, whatever the weights are stored as."""
        weight, bias = self.linear.weight.float(), self.linear.bias
        inner = functional.linear(pooled, weight, None if bias is None else bias.float())
        activated: Tensor = self.activation(inner)  # (..., D)
        return activated


_ACTIVATIONS: dict[DenseActivation, Callable[[], nn.Module]] = {
    "tanh": nn.Tanh,
    "identity": nn.Identity,
}


def sentence_vectors(
    hidden: Tensor, stream: Stream, config: SentenceConfig, dense: Dense | None = None
) -> Tensor:
    """(T, H) hidden states -> (N, D) float32 vectors; `dense` is what the config names."""
    return finished(pool_sentences(hidden, stream, config.pooling), config, dense)  # (N, D)


def finished(pooled: Tensor, config: SentenceConfig, dense: Dense | None) -> Tensor:
    """(..., P * H) pooled states -> (..., D) vectors: through the dense layer and to length 1.

    Each only where the config says so.
    """
    vectors = pooled
    if config.dense is not None:
        assert dense is not None
        vectors = dense(pooled)  # (..., D)
    return functional.normalize(vectors, dim=-1) if config.is_normalized else vectors


def pool_sentences(
    hidden: Tensor, stream: Stream, pooling: tuple[Pooling, ...], num_before: Sequence[int] = ()
) -> Tensor:
    """(T, H) hidden states -> (N, P * H) float32, the poolings side by side.

    A sequence may be the rest of a text, `num_before` of whose tokens are pooled elsewhere: that
    matters where a token counts by its place.
    """
    before = num_before or [0] * len(stream.first_rows)
    return torch.cat([_pooled(hidden.float(), stream, each, before) for each in pooling], dim=1)


def _pooled(hidden: Tensor, stream: Stream, pooling: Pooling, num_before: Sequence[int]) -> Tensor:
    """(T, H) -> (N, H)."""
    if pooling == "cls":
        return hidden.index_select(0, stream.first_rows)
    if pooling == "lasttoken":
        return hidden.index_select(0, stream.last_rows)
    lengths = stream.last_rows - stream.first_rows + 1  # (N,)
    sequences = torch.split(hidden, lengths.tolist())
    if pooling == "weightedmean":
        pairs = zip(sequences, num_before, strict=True)
        return torch.stack([_weighted_mean(rows, before) for rows, before in pairs])
    return torch.stack([_REDUCED[pooling](rows) for rows in sequences])


def _weighted_mean(rows: Tensor, num_before: int) -> Tensor:
    """(n, H) -> (H,): a token weighs the number of its place in the text, the first one 1."""
    weights = num_before + torch.arange(1, len(rows) + 1, device=rows.device, dtype=rows.dtype)
    return (weights[:, None] * rows).sum(dim=0) / weights.sum()


def _sum_by_root(rows: Tensor) -> Tensor:
    """(n, H) -> (H,)."""
    return rows.sum(dim=0) / math.sqrt(len(rows))


_REDUCED: dict[Pooling, Callable[[Tensor], Tensor]] = {
    "mean": partial(torch.mean, dim=0),
    "max": partial(torch.amax, dim=0),
    "mean_sqrt_len_tokens": _sum_by_root,
}
