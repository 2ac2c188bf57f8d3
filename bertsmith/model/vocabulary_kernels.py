"""Cross entropy over the vocabulary in Triton: one pass over the logits there, and one back.

A score is a logit plus its word's bias; all is computed in float32. Rows are read by groups of
words: a thread reads one at once, and keeps of all that it read the highest score and the sum of
exponentials below it, so that threads meet once a row. The sum of all is made without the highest
score's own 1, next to which float32 would keep little of a loss that is nearly nothing. On the way
back each program adds up its own rows' gradients in their order, so every run gives the same bits;
the caller adds up what few programs left.

Source: Milakov and Gimelshein 2018, Online normalizer calculation for softmax.

Legend: m rows; WORDS of the vocabulary; LANES groups of GROUP words that are read at once, in so
many TURNS or fewer; COLUMNS of a tile; P programs that share the rows.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LOG2_E = tl.constexpr(1.4426950408889634)
_LOWEST = tl.constexpr(-3.4028234663852886e38)
"""Of float32; minus infinity less itself would be no number."""


@triton.jit
def _exp(value):
    return tl.exp2(value * _LOG2_E)


@triton.jit
def _log_of_one_and(value):
    """The logarithm of their sum, in which as much of the value is left as there was."""
    above = 1.0 + value
    return tl.log(above) + (value - (above - 1.0)) / above


@triton.jit
def _scores(row, bias, words, is_word):
    """Of a row's words, float32; minus infinity where there is no word."""
    # Past the nearest cache, which is left to the bias.
    logit = tl.load(row + words, mask=is_word, other=float("-inf"), cache_modifier=".cg")
    return logit.to(tl.float32) + tl.load(bias + words, mask=is_word, other=0.0).to(tl.float32)


@triton.jit
def vocabulary_losses(
    logits,
    bias,
    targets,
    losses,
    highests,
    log_sums,
    is_right,
    WORDS: tl.constexpr,
    LANES: tl.constexpr,
    GROUP: tl.constexpr,
    TURNS: tl.constexpr,
):
    """Of each row of the logits (m, WORDS): its loss, and 1 where the first highest is its target.

    And for the way back: the highest score, and the logarithm of the sum of exponentials below it.
    A target beyond the vocabulary gives no number (NaN). A program is a row.
    """
    number, lanes, places = tl.program_id(0), tl.arange(0, LANES) * GROUP, tl.arange(0, GROUP)
    row = logits + number.to(tl.int64) * WORDS
    highest = tl.full([LANES], _LOWEST, tl.float32)
    total = tl.zeros([LANES], tl.float32)
    begins = lanes  # of the groups in which the highest scores stand
    for first in range(0, WORDS, LANES * GROUP):
        words = first + lanes[:, None] + places[None, :]
        scores = _scores(row, bias, words, words < WORDS)
        best = tl.max(scores, 1)
        begins = tl.where(best > highest, first + lanes, begins)
        higher = tl.maximum(best, highest)
        total = total * _exp(highest - higher) + tl.sum(_exp(scores - higher[:, None]), 1)
        highest = higher
    top = tl.max(highest, 0)
    begin = tl.min(tl.where(highest == top, begins, WORDS), 0)
    own = begin % (LANES * GROUP)  # the lane of the guess, read again to leave it alone out
    words = (tl.arange(0, TURNS) * LANES * GROUP)[:, None] + own + places[None, :]
    scores = _scores(row, bias, words, words < WORDS)
    guess = tl.min(tl.where(scores == top, words, WORDS))
    rest = tl.sum(tl.where(lanes == own, 0.0, total * _exp(highest - top)))
    rest += tl.sum(tl.where(words == guess, 0.0, _exp(scores - top)))
    is_number = (guess < WORDS) & (top < float("inf"))
    log_sum = tl.where(is_number, _log_of_one_and(rest), float("nan"))
    target = tl.load(targets + number)
    is_there = (target >= 0) & (target < WORDS)
    score = tl.where(is_there, _scores(row, bias, target, is_there), float("nan"))
    tl.store(losses + number, log_sum - (score - top))
    tl.store(highests + number, top)
    tl.store(log_sums + number, log_sum)
    tl.store(is_right + number, (guess == target).to(tl.int32))


@triton.jit(do_not_specialize=["num_rows"])
def vocabulary_gradient(
    logits,
    bias,
    targets,
    highests,
    log_sums,
    at_targets,
    sums,
    num_rows,
    WORDS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The logits (m, WORDS) -> probabilities, and at the targets what is given, in place.

    And each program's sums over its rows, (P, WORDS) float32. A program is (rows, columns).
    """
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    is_column = columns < WORDS
    added = tl.load(bias + columns, mask=is_column, other=0.0).to(tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    for row in range(tl.program_id(0), num_rows, tl.num_programs(0)):
        cells = logits + tl.cast(row, tl.int64) * WORDS + columns
        scores = tl.load(cells, mask=is_column, other=0.0).to(tl.float32) + added
        below = (scores - tl.load(highests + row)) * _LOG2_E
        grad = tl.exp2(below - tl.load(log_sums + row) * _LOG2_E)
        is_target = columns == tl.load(targets + row).to(tl.int32)
        grad = tl.where(is_target, tl.load(at_targets + row), grad)
        tl.store(cells, grad.to(logits.dtype.element_ty), mask=is_column)
        total += grad
    tl.store(sums + tl.program_id(0) * WORDS + columns, total, mask=is_column)
