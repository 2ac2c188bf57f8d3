"""A chunk's logits on a CPU -> its loss and their gradient, where every operator is a pass.

What `vocabulary_loss` defines, a few rows at a time, which caches hold from one operator to the
next, and by the operators that torch has vectors for: a softmax in one pass, no place of a maximum
looked for among all words. It does not know how logits are made.

Legend: m rows of a chunk, n rows of a piece, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor

from bertsmith.model.elementwise import widened

PIECE_LOGITS = 2**20
"""Held in float32 at once: of more, caches hold none from one operator to the next; of fewer, the
calls take longer than they save."""
_GROUP = 128
"""Words of which one number, the highest, is looked at by place."""


def loss_and_gradient(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Summed loss, how many are right, and the (1, V) gradient of the bias, in float32 at least.

    The gradient of the (m, V) logits takes their place, in their dtype.
    """
    most = max(1, PIECE_LOGITS // logits.shape[1])
    pieces = zip(torch.split(logits, most), torch.split(targets, most), strict=True)
    totals, corrects, grad_biases = zip(
        *(_of_piece(piece, bias, right) for piece, right in pieces), strict=True
    )
    grad_bias = torch.stack(grad_biases).sum(dim=0, keepdim=True)
    return torch.stack(totals).sum(), torch.stack(corrects).sum(), grad_bias


def _of_piece(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """As `loss_and_gradient`, of (n, V); the bias's gradient is (V,)."""
    scores = widened(logits).add(widened(bias))  # (n, V)
    highest, guesses = _first_of_highest(scores)  # (n, 1)
    below = highest - scores.gather(1, targets[:, None])  # (n, 1)
    probabilities = torch.softmax(scores, dim=1)
    # That of the highest is one of as many as all of them weigh, and never vanishes.
    losses = below - probabilities.gather(1, guesses).log()  # (n, 1)
    # Less one before anything is rounded: next to 1 little would be left of it.
    probabilities[torch.arange(len(targets)), targets] = torch.expm1(-losses[:, 0])
    logits.copy_(probabilities)
    return losses.sum(), (guesses[:, 0] == targets).sum(), probabilities.sum(dim=0)


def _first_of_highest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """`scores.max(dim=1, keepdim=True)`: torch has vectors for a maximum, and none for its place.

    So of a group of words the maximum is taken, its place among groups looked for, and within one.
    """
    num_rows, num_words = scores.shape
    num_groups = num_words // _GROUP
    num_grouped = num_groups * _GROUP
    rest = scores[:, num_grouped:]
    if num_groups == 0:
        return rest.max(dim=1, keepdim=True)
    groups = scores[:, :num_grouped].view(num_rows, num_groups, _GROUP)
    group = groups.amax(dim=2).argmax(dim=1)  # (n,)
    highest, place = groups[torch.arange(num_rows), group].max(dim=1, keepdim=True)  # (n, 1)
    guess = group[:, None] * _GROUP + place
    if num_grouped == num_words:
        return highest, guess
    of_rest, place = rest.max(dim=1, keepdim=True)
    guess = torch.where(of_rest > highest, num_grouped + place, guess)
    return torch.maximum(highest, of_rest), guess
