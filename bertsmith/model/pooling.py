"""Hidden states -> one vector a text: what sentence embeddings are made of.

Special tokens count, as sentence-transformers counts them. It does not know what the vectors are
compared with.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; sentence-transformers, Pooling, Dense
and Normalize.

Legend: T tokens, N sequences, H hidden size, P poolings, D width of a vector (P * H without a dense
layer); n sequences of a rectangle, S tokens of each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from bertsmith.model import cpu_pooling
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
    before = num_before or [0] * stream.first_rows.shape[0]
    if len(pooling) > 1:
        hidden = hidden.float()  # (T, H), once for all of them
    return _together([_pooled(hidden, stream, each, before) for each in pooling], dim=1)


def _pooled(hidden: Tensor, stream: Stream, pooling: Pooling, num_before: Sequence[int]) -> Tensor:
    """(T, H) -> (N, H) float32."""
    if pooling == "mean" and (means := cpu_pooling.means(hidden, stream)) is not None:
        return means
    hidden = hidden.float()  # (T, H)
    if pooling == "cls":
        return hidden.index_select(0, stream.first_rows)
    if pooling == "lasttoken":
        return hidden.index_select(0, stream.last_rows)
    parts, number = [], 0
    for one in stream.rectangles:
        states = hidden[one.start : one.end].view(one.num_sequences, one.length, -1)  # (n, S, H)
        if pooling == "weightedmean":
            before = num_before[number : number + one.num_sequences]
            parts.append(_weighted_mean(states, before))
        else:
            parts.append(_REDUCED[pooling](states))
        number += one.num_sequences
    return _together(parts, dim=0)


def _together(parts: Sequence[Tensor], dim: int) -> Tensor:
    """Side by side; a single one as it is."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=dim)


def _weighted_mean(states: Tensor, num_before: Sequence[int]) -> Tensor:
    """(n, S, H) -> (n, H): a token weighs the number of its place in the text, the first one 1."""
    places = torch.arange(1, states.shape[1] + 1, device=states.device)  # (S,)
    before = torch.tensor(num_before, device=states.device)  # (n,)
    weights = (before[:, None] + places).to(states.dtype)  # (n, S)
    return (weights[:, :, None] * states).sum(dim=1) / weights.sum(dim=1, keepdim=True)


def _sum_by_root(states: Tensor) -> Tensor:
    """(n, S, H) -> (n, H)."""
    return states.sum(dim=1) / math.sqrt(states.shape[1])


_REDUCED: dict[Pooling, Callable[[Tensor], Tensor]] = {
    "mean": partial(torch.mean, dim=1),
    "max": partial(torch.amax, dim=1),
    "mean_sqrt_len_tokens": _sum_by_root,
}
