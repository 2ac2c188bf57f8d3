"""A packed batch -> what a model computes on it, and what the restated original computes.

The original runs on tensors as they lie on disk, so that a matrix which loading put into another's
place shows too. It does not judge.

Legend: L layers, N sequences, T tokens, M predicted rows, H hidden size, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bertsmith.batch import IntArray, PackedBatch
from bertsmith.certificate.comparisons import Numbers
from bertsmith.certificate.golden import modeling
from bertsmith.certificate.golden.modeling import Architecture, Batch
from bertsmith.certificate.originals import WORD_EMBEDDINGS, variables_of
from bertsmith.checkpoints.names import DECODER, LM_HEAD, NEXT_SENTENCE_HEAD, POOLER
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream

_PREDICTED_ROWS = 24


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What was computed; None for a part that the model has not."""

    hidden_states: tuple[Numbers, ...]
    """L + 1 of (T, H)."""
    pooled: Numbers | None
    """(N, H)."""
    words: Numbers | None
    """(M, V) logits of `predicted_rows`."""
    pairs: Numbers | None
    """(N, 2)."""


def outputs_of(model: PretrainModel, packed: PackedBatch) -> Outputs:
    """Everything the model computes on the batch, in its own number type."""
    stream = Stream.of(packed)
    states = model.bert.hidden_states(stream)
    pooled = None if model.bert.pooler is None else model.bert.pool(states[-1], stream)
    words, pairs = None, None
    if model.masked_lm is not None:
        rows = states[-1][torch.from_numpy(predicted_rows(packed))]
        words = numbers(model.masked_lm(rows, model.bert.token_embedding))
    if model.next_sentence is not None:
        pairs = numbers(model.next_sentence(pooled))
    return Outputs(
        hidden_states=tuple(map(numbers, states)),
        pooled=None if pooled is None else numbers(pooled),
        words=words,
        pairs=pairs,
    )


def original_outputs(
    tensors: Mapping[str, Tensor], packed: PackedBatch, architecture: Architecture
) -> Outputs:
    """The same by the restated original, in float64: sequences padded, masked with -10,000.

    `tensors` have the names of the Hugging Face layout. A decoder of its own is used where there
    is one.
    """
    variables = variables_of(tensors)
    input_ids, input_mask, segment_ids = (a.astype(np.int64) for a in packed.to_padded())
    batch = Batch(input_ids=input_ids, input_mask=input_mask, segment_ids=segment_ids)
    is_real = input_mask.astype(bool)
    states = modeling.hidden_states(variables, batch, architecture)
    hidden = states[-1][is_real]  # (T, H)
    pooled, words, pairs = None, None, None
    if any(name.startswith(POOLER) for name in tensors):
        # The original has no left-to-right model; ours pools the last token there.
        is_last = architecture.direction == "left_to_right"
        rows = packed.starts + (packed.lengths - 1) * is_last
        pooled = modeling.pooled_output(variables, hidden[rows])
    if any(name.startswith(LM_HEAD) for name in tensors):
        own = tensors.get(DECODER)
        decoder = variables(WORD_EMBEDDINGS) if own is None else own.float().numpy()
        rows = hidden[predicted_rows(packed)]
        words = modeling.masked_lm_logits(variables, rows, decoder, architecture)
    if pooled is not None and any(name.startswith(NEXT_SENTENCE_HEAD) for name in tensors):
        pairs = modeling.next_sentence_logits(variables, pooled)
    return Outputs(
        hidden_states=tuple(state[is_real] for state in states),
        pooled=pooled,
        words=words,
        pairs=pairs,
    )


def predicted_rows(packed: PackedBatch) -> IntArray:
    """(M,) rows whose tokens are predicted: few, because logits are as wide as the vocabulary."""
    return np.unique(np.linspace(0, packed.num_tokens - 1, _PREDICTED_ROWS).astype(np.int64))


def one_by_one(packed: PackedBatch) -> list[PackedBatch]:
    """Every sequence as a batch of its own."""
    ends = np.cumsum(packed.lengths)
    return [
        PackedBatch(
            token_ids=packed.token_ids[end - length : end],
            segment_ids=packed.segment_ids[end - length : end],
            lengths=np.array([length]),
            keys=np.array([key]),
        )
        for end, length, key in zip(ends, packed.lengths, packed.keys, strict=True)
    ]


@contextlib.contextmanager
def in_float64(model: PretrainModel) -> Iterator[None]:
    """Computes in float64 inside the block: then a difference is no rounding."""
    dtype = model.bert.dtype
    model.double()
    try:
        yield
    finally:
        model.to(dtype)  # float32 -> float64 -> float32 loses nothing


def numbers(tensor: Tensor) -> Numbers:
    """A tensor as an array."""
    array: Numbers = tensor.detach().numpy()
    return array
