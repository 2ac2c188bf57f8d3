"""Rows and their targets -> cross entropy over the vocabulary, a chunk of rows at a time.

The logits of a whole step can be its largest matrix: those of 4,096 rows of a left-to-right model
are 250 MB in bfloat16, and their gradient as much again. So the gradient of a chunk is made beside
its loss, while its logits are there, and both are dropped before the next chunk; the backward pass
only scales what came of them. On a CPU functions in C++ do it all, products included
(`cpu_whole_loss`; of rows that are one chunk they make the gradients on the way back), or, where
other products are faster, what lies between them (`cpu_vocabulary_loss`); in eager mode, with
nothing compiled, `vocabulary_pieces` does the latter a few rows at a time. On a GPU kernels in
Triton do it (`gpu_vocabulary_loss`). It does not know how rows and targets were chosen.

Source: Hsu et al. 2024 (Liger Kernel) for gradients made in the forward pass.

Legend: M rows, m rows of a chunk, H hidden size, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from bertsmith.fusion import fused, is_eager_on_cpu
from bertsmith.model import (
    cpu_vocabulary_loss,
    cpu_whole_loss,
    gpu_vocabulary_loss,
    vocabulary_pieces,
)
from bertsmith.model.elementwise import widened
from bertsmith.model.first_order import first_order

CHUNK_LOGITS = 2**26
"""Held at once at most: 2,198 rows of BERT's 30,522. The recipes' steps on a CPU predict fewer."""
GPU_CHUNK_LOGITS = 2**29
"""The same on a GPU, a gigabyte in bfloat16: gradients of few chunks are added up sooner. Masked
rows of a step of BASE take a thirtieth of what its hidden states do."""
_LINE = 64
"""What a GPU's vocabulary is made a multiple of while it is multiplied by: its fast products read
whole lines, and would leave BERT's 30,522 words to slower ones."""


def language_model_loss(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, *, in_float16: bool = False
) -> tuple[Tensor, Tensor]:
    """Summed cross entropy in nats of (M, H) rows against (M,) targets, and how many are right.

    A logit is a row's product with a row of the (V, H) embedding, rounded to their dtype, but not
    where `cpu_whole_loss` makes it; the (V,) bias and all else come in float32 at least. Targets
    are int64 in [0, V). The gradient is of first order. `in_float16`: products are made so where
    there is one (`float16`).
    """
    learned = (rows, embedding, bias)
    is_learning = torch.is_grad_enabled() and any(each.requires_grad for each in learned)
    if is_learning and rows.dtype == torch.float16:
        return _all_at_once(*learned, targets)
    if is_learning and len(rows) <= _most_rows(rows, len(embedding)):
        way = _whole_way(*learned, targets, in_float16)
        if way is not None:
            return cpu_whole_loss.loss(*learned, targets, in_float16=way)
    if is_learning:
        total, correct = _LanguageModelLoss.apply(*learned, targets, in_float16)  # type: ignore[no-untyped-call]
        return total, correct
    if embedding.is_cuda:
        embedding, bias = _whole_lines(embedding, bias)
    return _added(
        [
            _scored(chunk @ embedding.T, bias, chunk_targets)
            for chunk, chunk_targets in _chunks(rows, targets, len(embedding))
        ]
    )


def _whole_lines(embedding: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """With words behind the others that no text has: their probability is exactly zero."""
    num_words, width = embedding.shape
    num_more = -num_words % _LINE
    if num_more == 0:
        return embedding, bias
    none = embedding.new_zeros((num_more, width)), bias.new_full((num_more,), -torch.inf)
    return torch.cat([embedding, none[0]]), torch.cat([bias, none[1]])


@fused
def _all_at_once(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor]:
    """The same in one piece, for float16, whose small gradients would vanish.

    The scale of the loss, which only the backward pass knows, must come before they are rounded.
    """
    logits = widened(functional.linear(rows, embedding)) + widened(bias)  # (M, V)
    total = functional.cross_entropy(logits, targets, reduction="sum")
    return total, (logits.argmax(dim=1) == targets).sum()


class _LanguageModelLoss(torch.autograd.Function):
    """`language_model_loss`, with its gradients."""

    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        embedding: Tensor,
        bias: Tensor,
        targets: Tensor,
        in_float16: bool,
    ) -> tuple[Tensor, Tensor]:
        parts: list[tuple[Tensor, Tensor]] = []
        grad_rows: list[Tensor] = []
        grad_embedding = grad_bias = None
        num_words = len(embedding)
        if embedding.is_cuda:
            embedding, bias = _whole_lines(embedding, bias)
        for chunk, chunk_targets in _chunks(rows, targets, len(embedding)):
            part, (by_rows, by_embedding, by_bias) = _with_gradients(
                chunk, embedding, bias, chunk_targets, in_float16
            )
            parts.append(part)
            grad_rows.append(by_rows)
            grad_embedding = _plus(grad_embedding, by_embedding)
            grad_bias = _plus(grad_bias, by_bias)
        assert grad_embedding is not None
        assert grad_bias is not None
        # (M, H), (V, H), (1, V); of no view, for which torch.compile would make another kernel.
        of_words = (grad_embedding[:num_words].data, grad_bias[:, :num_words].data)
        ctx.save_for_backward(torch.cat(grad_rows), *of_words)
        ctx.dtypes = rows.dtype, embedding.dtype, bias.dtype
        total, correct = _added(parts)
        ctx.mark_non_differentiable(correct)
        return total, correct

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        grad_rows, grad_embedding, grad_bias = (
            _scaled(each, gradients[0], dtype)
            for each, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True)
        )
        return grad_rows, grad_embedding, grad_bias[0], None, None  # the bias's is (V,)


def _chunks(rows: Tensor, targets: Tensor, num_words: int) -> list[tuple[Tensor, Tensor]]:
    """As few chunks as can be, and nearly equal: a last one of one row would need a kernel."""
    num_chunks = max(1, -(-len(rows) // _most_rows(rows, num_words)))
    size = max(1, -(-len(rows) // num_chunks))
    return list(zip(torch.split(rows, size), torch.split(targets, size), strict=True))


def _most_rows(rows: Tensor, num_words: int) -> int:
    """Of a chunk."""
    return max(1, (GPU_CHUNK_LOGITS if rows.is_cuda else CHUNK_LOGITS) // num_words)


def _plus(total: Tensor | None, part: Tensor) -> Tensor:
    """Their sum, in float32 at least; a part that stays alone is not widened."""
    return part if total is None else widened(total).add_(part)


def _added(parts: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    totals, corrects = zip(*parts, strict=True)
    return torch.stack(totals).sum(), torch.stack(corrects).sum()


def _whole_way(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, in_float16: bool
) -> bool | None:
    """Where `cpu_whole_loss` takes them, whether by products of float16; None where it does not."""
    given = (rows, embedding, bias, targets)
    if in_float16 and cpu_whole_loss.suits(*given, in_float16=True):
        return True
    return False if cpu_whole_loss.suits(*given) else None


def _with_gradients(
    rows: Tensor, embedding: Tensor, bias: Tensor, targets: Tensor, in_float16: bool
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Of one chunk: what `_scored` says, and the gradients (m, H), (V, H) and (1, V)."""
    given = (rows, embedding, bias, targets)
    way = _whole_way(*given, in_float16)
    if way is not None:
        return cpu_whole_loss.loss_and_gradients(*given, in_float16=way)
    logits = rows @ embedding.T  # (m, V)
    if cpu_vocabulary_loss.suits(logits, bias, targets):
        total, correct, by_bias = cpu_vocabulary_loss.loss_and_gradient(logits, bias, targets)
    elif gpu_vocabulary_loss.suits(logits, bias, targets):
        total, correct, by_bias = gpu_vocabulary_loss.loss_and_gradient(logits, bias, targets)
    elif is_eager_on_cpu(logits):
        total, correct, by_bias = vocabulary_pieces.loss_and_gradient(logits, bias, targets)
    else:
        total, correct = _to_gradient(logits, bias, targets)
        by_bias = logits.new_ones(1, len(rows)) @ logits  # (1, V)
    gradient = logits  # (m, V); it stands where they were
    return (total, correct), (gradient @ embedding, gradient.T @ rows, by_bias)


def _to_gradient(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """As `_scored`; the gradient takes the place of the (m, V) logits."""
    total, correct, at_target = _scored_in_place(logits, bias, targets)  # at_target: (m, 1)
    logits.scatter_(1, targets[:, None], at_target.to(logits.dtype))
    return total, correct


@fused
def _scored_in_place(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """As `_scored`; the (m, V) probabilities take the place of the logits.

    And what is to stand at the targets, (m, 1): their probabilities less one, made before anything
    is rounded, for next to 1 little would be left of them.
    """
    total, correct, probabilities, losses = _softmax_loss(logits, bias, targets)
    logits.copy_(probabilities)
    return total, correct, torch.expm1(-losses)


def _scored(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Summed loss, and how many are right."""
    if gpu_vocabulary_loss.suits(logits, bias, targets):
        return gpu_vocabulary_loss.loss(logits, bias, targets)
    if is_eager_on_cpu(logits):
        return vocabulary_pieces.loss(logits, bias, targets)
    return _scored_in_one_pass(logits, bias, targets)


@fused
def _scored_in_one_pass(logits: Tensor, bias: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    total, correct, _, _ = _softmax_loss(logits, bias, targets)
    return total, correct


def _softmax_loss(
    logits: Tensor, bias: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `_scored`, the (m, V) probabilities and the (m, 1) losses, all in float32 at least."""
    scores = widened(logits) + widened(bias)  # (m, V)
    highest, guesses = scores.max(dim=1, keepdim=True)  # (m, 1)
    right = scores.gather(1, targets[:, None]) - highest  # (m, 1)
    weights = scores.sub_(highest).exp_()
    sums = weights.sum(dim=1, keepdim=True)  # (m, 1)
    losses = sums.log() - right  # (m, 1)
    return losses.sum(), (guesses[:, 0] == targets).sum(), weights.div_(sums), losses


def _scaled(values: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    """The factor is not rounded to the values' dtype: that would scale all of them wrongly."""
    if values.device.type == "cpu":  # whose scalars torch takes as they are, beside any type
        return (values.to(torch.promote_types(values.dtype, dtype)) * factor).to(dtype)
    return _scaled_in_one_pass(values, factor, dtype)


@fused
def _scaled_in_one_pass(values: Tensor, factor: Tensor, dtype: torch.dtype) -> Tensor:
    return (widened(values) * factor).to(dtype)
