"""Hidden states -> what a language-model head makes of them, a slice of rows at a time.

Logits are as wide as the vocabulary: 512 rows of 30,522 are 63 MB, so they are never made for a
whole batch. It does not know what is asked.

Source: Devlin et al. 2018, section 3.1; google-research/bert, run_pretraining.py,
get_masked_lm_output.

Legend: M rows to predict, m rows of a slice or sequence, N sequences, H hidden size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.batch import IntArray
from bertsmith.model.elementwise import widened
from bertsmith.model.finite import finite
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.stream import Stream, tensors

_ROWS_PER_SLICE = 512


def stream_rows(stream: Stream, asked: Sequence[IntArray]) -> Tensor:
    """Rows of each sequence of a stream, counted within it, (m,) each -> all of them (M,)."""
    counts = np.array([len(rows) for rows in asked])  # (N,)
    places, sizes = tensors((np.concatenate(asked), counts), stream.token_ids.device)
    return places + torch.repeat_interleave(
        stream.first_rows, sizes, output_size=int(counts.sum())
    )  # (M,)


def logits(model: PretrainModel, hidden: Tensor, vocab_size: int) -> Iterator[Tensor]:
    """(M, H) final hidden states -> slices of (m, V) logits, in order.

    In float32 whatever the model computes in: of bfloat16's logits many are equal that are not.
    """
    head = model.masked_lm
    assert head is not None
    # Some models have more rows than their vocabulary has entries: those stand for nothing.
    weight = widened(head.decoder_weight(model.bert.token_embedding)[:vocab_size])  # (V, H)
    bias = widened(head.bias[:vocab_size])  # (V,)
    for rows in torch.split(hidden, _ROWS_PER_SLICE):
        yield functional.linear(widened(head.transform(rows)), weight, bias)  # (m, V)


def log_likelihoods(
    model: PretrainModel, hidden: Tensor, token_ids: Tensor, vocab_size: int
) -> Tensor:
    """(M,) natural logarithms of the probabilities that (M, H) states give to (M,) tokens."""
    slices = zip(
        logits(model, hidden, vocab_size), torch.split(token_ids, _ROWS_PER_SLICE), strict=True
    )
    found = [scores.gather(1, ids[:, None])[:, 0] - scores.logsumexp(1) for scores, ids in slices]
    return finite(torch.cat(found), "log-likelihoods")  # (M,)
