"""Hidden states -> one vector a text: what sentence embeddings are made of.

Special tokens count, as sentence-transformers counts them. It does not know what the vectors are
compared with.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; sentence-transformers, Pooling.

Legend: T tokens, N sequences, H hidden size, P poolings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.stream import Stream

Pooling = Literal["cls", "mean", "max"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]


@dataclass(frozen=True, kw_only=True)
class SentenceConfig:
    """How a sentence vector is made of hidden states."""

    pooling: tuple[Pooling, ...] = ("mean",)
    """`cls` (the first token), `mean` or `max` over all tokens; several are laid side by side."""
    is_normalized: bool = False
    """Whether vectors are brought to length 1."""
    max_tokens: int | None = None
    """The longest sequence the model was made for, if shorter than its positions allow."""
    similarity: Similarity = "cosine"
    """What the model's author compares vectors with; kept, not applied."""
    prompts: tuple[tuple[str, str], ...] = ()
    """(name, text) of what its author puts before a text, by task; shown, not applied."""

    def __post_init__(self) -> None:
        """Refuses what would give no vector."""
        if not self.pooling:
            raise ValueError("pooling must name at least one of cls, mean, max")
        if self.max_tokens is not None and self.max_tokens < 3:
            raise ValueError(f"max_tokens must leave room for a token, found {self.max_tokens}")


def sentence_vectors(hidden: Tensor, stream: Stream, config: SentenceConfig) -> Tensor:
    """(T, H) hidden states -> (N, P * H) float32 vectors, of length 1 where the config says so."""
    vectors = pool_sentences(hidden, stream, config.pooling)  # (N, P * H)
    return functional.normalize(vectors, dim=1) if config.is_normalized else vectors


def pool_sentences(hidden: Tensor, stream: Stream, pooling: tuple[Pooling, ...]) -> Tensor:
    """(T, H) hidden states -> (N, P * H) float32, the poolings side by side."""
    return torch.cat([_pooled(hidden.float(), stream, each) for each in pooling], dim=1)


def _pooled(hidden: Tensor, stream: Stream, pooling: Pooling) -> Tensor:
    if pooling == "cls":
        return hidden.index_select(0, stream.first_rows)  # (N, H)
    lengths = stream.last_rows - stream.first_rows + 1  # (N,)
    reduced = torch.mean if pooling == "mean" else torch.amax
    sequences = torch.split(hidden, lengths.tolist())
    return torch.stack([reduced(each, dim=0) for each in sequences])  # (N, H)
