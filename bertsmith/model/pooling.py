"""Hidden states -> one vector a text: what sentence embeddings are made of.

Special tokens count, as sentence-transformers counts them. It does not know what the vectors are
compared with.

Source: Reimers and Gurevych 2019, Sentence-BERT, section 3; sentence-transformers, Pooling.

Legend: T tokens, N sequences, H hidden size, P poolings.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model.sentence import Pooling, SentenceConfig
from bertsmith.model.stream import Stream


def sentence_vectors(hidden: Tensor, stream: Stream, config: SentenceConfig) -> Tensor:
    """(T, H) hidden states -> (N, P * H) float32 vectors, of length 1 where the config says so."""
    return to_length(pool_sentences(hidden, stream, config.pooling), config)  # (N, P * H)


def to_length(vectors: Tensor, config: SentenceConfig) -> Tensor:
    """(..., D) vectors as they are, or of length 1 where the config says so."""
    return functional.normalize(vectors, dim=-1) if config.is_normalized else vectors


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
