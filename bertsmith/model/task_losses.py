"""Logits and what is right -> the loss of a task, as a sum over its answers.

A softmax goes over the labels of a row; for spans over the tokens of a sequence; for choices over
the sequences of a question. The last two are one: a softmax over each segment of a column, without
padding. The caller divides by the step's count.

Source: Devlin et al. 2018, sections 4.1 to 4.4; google-research/bert run_classifier.py and
run_squad.py, create_model and compute_loss.

Legend: R rows, S segments, C columns, N sequences, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def label_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(R, C) logits of one label of C, (R,) int64 right ones -> summed cross entropy in nats."""
    return functional.cross_entropy(logits, targets, reduction="sum")


def labels_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(R, C) logits of C labels by themselves, (R * C,) ones and zeros -> the rows' mean losses."""
    wanted = targets.reshape(logits.shape)  # (R, C)
    total = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="sum")
    return total / logits.shape[1]


def regression_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """(R, 1) predictions, (R,) values -> summed squared errors."""
    return functional.mse_loss(logits[:, 0], targets, reduction="sum")


def choice_loss(logits: Tensor, targets: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """(N, 1) scores, (N,) 1 at the right sequence of each group -> summed cross entropy."""
    totals = segment_logsumexp(logits, groups, num_groups)
    return totals.sum() - (logits[:, 0] * targets).sum()


def span_loss(logits: Tensor, targets: Tensor, segments: Tensor, num_segments: int) -> Tensor:
    """(T, 2) start and end scores, (N * 2,) the right rows of the stream -> half the sum of both.

    Differs: the paper's softmax runs over the passage alone and its loss is the whole sum, the
    original code's runs over padding too.
    """
    starts, ends = targets.reshape(num_segments, 2).unbind(dim=1)  # (N,)
    totals = segment_logsumexp(logits, segments, num_segments)  # (N, 2)
    right = logits[:, 0].index_select(0, starts) + logits[:, 1].index_select(0, ends)  # (N,)
    return (totals.sum() - right.sum()) / 2.0


def segment_logsumexp(scores: Tensor, segments: Tensor, num_segments: int) -> Tensor:
    """(R, C) scores, (R,) the segment of each row -> (S, C) log of the summed exponentials.

    Every segment has a row.
    """
    index = segments[:, None].expand_as(scores)  # (R, C)
    highest = scores.new_full((num_segments, scores.shape[1]), -torch.inf)
    highest = highest.scatter_reduce(0, index, scores.detach(), "amax")  # (S, C)
    powers = torch.exp(scores - highest.index_select(0, segments))  # (R, C)
    sums = torch.zeros_like(highest).scatter_add(0, index, powers)  # (S, C)
    return sums.log() + highest
