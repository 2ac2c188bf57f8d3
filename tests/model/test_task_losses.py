"""A loss over segments of a stream is the loss over each segment by itself, with its gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.model import task_losses

LENGTHS = [3, 1, 5]
SEGMENTS = torch.repeat_interleave(torch.arange(3), torch.tensor(LENGTHS))


def _draw(*shape: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    drawn = scale * torch.randn(*shape, dtype=torch.float64, generator=generator)
    return drawn.requires_grad_()


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_logsumexp_of_segments_is_that_of_each_and_so_is_its_gradient(scale: float) -> None:
    scores = _draw(9, 2, scale=scale)
    found = task_losses.segment_logsumexp(scores, SEGMENTS, 3)
    expected = torch.stack([part.logsumexp(dim=0) for part in torch.split(scores, LENGTHS)])
    torch.testing.assert_close(found, expected)
    weights = torch.arange(6, dtype=torch.float64).reshape(3, 2)
    (gradient,) = torch.autograd.grad((found * weights).sum(), scores)
    (wanted,) = torch.autograd.grad((expected * weights).sum(), scores)
    torch.testing.assert_close(gradient, wanted)


def test_span_loss_is_the_mean_of_start_and_end_over_each_sequence() -> None:
    logits = _draw(9, 2)
    rows = torch.tensor([[1, 2], [3, 3], [4, 8]])
    expected = torch.zeros((), dtype=torch.float64)
    for part, (start, end), first in zip(
        torch.split(logits, LENGTHS), rows, (0, 3, 4), strict=True
    ):
        for column, row in enumerate((start, end)):
            expected = expected + functional.cross_entropy(part[:, column], row - first) / 2
    found = task_losses.span_loss(logits, rows.reshape(-1), SEGMENTS, 3)
    torch.testing.assert_close(found, expected)


def test_choice_loss_is_a_softmax_over_the_choices_of_each_question() -> None:
    scores = _draw(9, 1)
    right = [2, 0, 1]
    targets = torch.cat(
        [torch.eye(n, dtype=torch.float64)[at] for n, at in zip(LENGTHS, right, strict=True)]
    )
    expected = sum(
        functional.cross_entropy(part[:, 0], torch.tensor(at))
        for part, at in zip(torch.split(scores, LENGTHS), right, strict=True)
    )
    torch.testing.assert_close(task_losses.choice_loss(scores, targets, SEGMENTS, 3), expected)


def test_losses_of_rows_are_torchs_own_sums() -> None:
    logits, labels = _draw(4, 3), torch.tensor([0, 2, 1, 2])
    torch.testing.assert_close(
        task_losses.label_loss(logits, labels), 4 * functional.cross_entropy(logits, labels)
    )
    wanted = torch.tensor([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]], dtype=torch.float64)
    torch.testing.assert_close(
        task_losses.labels_loss(logits, wanted.reshape(-1)),
        4 * functional.binary_cross_entropy_with_logits(logits, wanted),
    )
    values = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.float64)
    torch.testing.assert_close(
        task_losses.regression_loss(logits[:, :1], values),
        4 * functional.mse_loss(logits[:, 0], values),
    )
