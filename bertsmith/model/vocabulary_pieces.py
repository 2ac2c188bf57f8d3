"""A chunk's logits on a CPU -> its loss and their gradient, in eager mode, with nothing compiled.

It computes what `vocabulary_loss` defines, a few rows at a time, which stay in the cache from one
operator to the next, with operators that torch vectorises: a softmax in one pass, and a row's
argmax first among groups of words, then within one. It does not know how logits are made.

Legend: m rows of a chunk, n rows of a piece, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bertsmith.model.elementwise import widened

PIECE_LOGITS = 2**20
"""Held in float32 at once: of more, caches hold none from one operator to the next; of fewer, the
calls take longer than they save (docs/log.md)."""
_GROUP = 128
"""Words in a group, of which the highest score is taken before its place is looked for."""


def loss(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Summed loss of (m, V) logits, in float32 at least, and how many are right."""
    bias = widened(bias)
    parts = [_loss_of(piece, bias, own) for piece, own in _pieces(logits, targets)]
    totals, corrects = zip(*parts, strict=True)
    return torch.stack(totals).sum(), torch.stack(corrects).sum()


def loss_and_gradient(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `loss`, and the (1, V) gradient of the bias, in float32 at least.

    The gradient of the (m, V) logits takes their place, in their dtype.
    """
    bias = widened(bias)
    parts = [_gradient_of(piece, bias, own) for piece, own in _pieces(logits, targets)]
    totals, corrects, grad_biases = zip(*parts, strict=True)
    grad_bias = torch.stack(grad_biases).sum(dim=0, keepdim=True)
    return torch.stack(totals).sum(), torch.stack(corrects).sum(), grad_bias


def _pieces(logits: Tensor, targets: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    most = max(1, PIECE_LOGITS // logits.shape[1])
    return zip(torch.split(logits, most), torch.split(targets, most), strict=True)


def _loss_of(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """As `loss`, of one piece."""
    losses, correct, _ = _scored(logits, bias, targets)
    return losses.sum(), correct


def _gradient_of(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `loss_and_gradient`, of one piece; the bias's is (V,)."""
    losses, correct, probabilities = _scored(logits, bias, targets)
    # Less one before anything is rounded: next to 1 little would be left of it.
    probabilities[_numbers(targets), targets] = torch.expm1(-losses)
    logits.copy_(probabilities)
    return losses.sum(), correct, probabilities.sum(dim=0)


def _numbers(rows: Tensor) -> Tensor:
    return torch.arange(len(rows), device=rows.device)


def _scored(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Of (n, V) logits the (n,) losses, how many are right, and the probabilities."""
    scores = widened(logits) + bias  # (n, V)
    highest, guesses = _first_of_highest(scores)  # (n, 1)
    below = highest - scores.gather(1, targets[:, None])  # (n, 1)
    probabilities = torch.softmax(scores, dim=1)
    # The highest one is 1 / (sum of e^(score - highest)): 1 / V at least, so it has a logarithm.
    losses = below - probabilities.gather(1, guesses).log()  # (n, 1)
    return losses[:, 0], (guesses[:, 0] == targets).sum(), probabilities


def _first_of_highest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """`scores.max(dim=1, keepdim=True)`, but for the place of what is no number.

    torch has vectors for a maximum, and none for its place. So of a group of words the maximum is
    taken, its place among groups looked for, and within one.
    """
    num_rows, num_words = scores.shape
    num_groups = num_words // _GROUP
    num_grouped = num_groups * _GROUP
    rest = scores[:, num_grouped:]
    if num_groups == 0:
        return rest.max(dim=1, keepdim=True)
    groups = scores[:, :num_grouped].view(num_rows, num_groups, _GROUP)
    group = groups.amax(dim=2).argmax(dim=1)  # (n,)
    highest, place = groups[_numbers(group), group].max(dim=1, keepdim=True)  # (n, 1)
    guess = group[:, None] * _GROUP + place
    if num_grouped == num_words:
        return highest, guess
    of_rest, place = rest.max(dim=1, keepdim=True)
    guess = torch.where(of_rest > highest, num_grouped + place, guess)
    return torch.maximum(highest, of_rest), guess
