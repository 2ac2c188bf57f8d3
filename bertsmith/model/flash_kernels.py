"""Attention of a packed stream in Triton: one kernel forward, two backward, no scores in memory.

Sequences that are short go through `flash_short_kernels`, one forward and one backward.

Each program holds a tile of one sequence and one head, and walks over the tiles it can see. Dropout
masks are drawn again wherever they are needed, from the same words and columns as everywhere, so
they are the very masks of `attention`; no sum is shared between programs, so every run of a step
gives the same bits. `flash_attention` says when these run, and with which values.

Source: Dao 2023, FlashAttention-2, algorithms 1 and 2.

The kernels are long and take many arguments, because Triton knows no structures and what is kept
in registers cannot be handed around.

Legend: T rows of the packed stream, N sequences, H hidden size; HEADS = A; HEAD = K = H/A; SPAN = K
rounded up to a power of two; TILE rows of queries Q and of keys S; BAR: 31-bit draws below it are
dropped; `gain` 1 / (1 - p). A program is (sequence, tile, head).
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.flash_tiles import (
    LEFT_TO_RIGHT,
    RIGHT_TO_LEFT,
    keeps_weight,
    put,
    put_sum,
    scores_of,
    sequence,
    tile,
)


@triton.jit(do_not_specialize=["num_rows"])
def attention_forward(
    qkv,
    words,
    first_rows,
    last_rows,
    contexts,
    log_sums,
    num_rows,
    scale,
    gain,
    HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    SPAN: tl.constexpr,
    DIRECTION: tl.constexpr,
    BAR: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Contexts (T, H) of one tile of queries.

    And for later (A, T): log2 of the sum of each query's 2^score, scores counted in units of log 2.
    """
    start, length = sequence(first_rows, last_rows)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    if first < length:
        width = HEADS * HEAD
        queries = first + tl.arange(0, TILE)
        q = tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
        if BAR > 0:
            query_words = tl.load(words + start + queries, mask=queries < length, other=0)
        begin, end = 0, length
        if DIRECTION == LEFT_TO_RIGHT:
            end = tl.minimum(length, first + TILE)
        if DIRECTION == RIGHT_TO_LEFT:
            begin = first
        # Not the constant: numbers would be rounded first, and chosen half a word at a time.
        zero = 0.0 * gain
        highest = tl.full([TILE], -float("inf"), tl.float32)
        total = tl.zeros([TILE], tl.float32)
        context = tl.zeros([TILE, SPAN], tl.float32)
        for key in range(begin, end, TILE):
            keys = key + tl.arange(0, TILE)
            k = tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
            v = tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
            scores = scores_of(
                q, k, queries[:, None], keys[None, :], length, scale, DIRECTION, PRECISION
            )
            higher = tl.maximum(highest, tl.max(scores, 1))
            # A row that sees nothing has no highest score to be measured from.
            ground = tl.where(higher == -float("inf"), 0.0, higher)
            weights = tl.exp2(scores - ground[:, None])
            shrink = tl.exp2(highest - ground)
            total = total * shrink + tl.sum(weights, 1)
            if BAR > 0:
                is_kept = keeps_weight(query_words[:, None], keys[None, :], head, BAR)
                weights = tl.where(is_kept, weights, zero)
            context = context * shrink[:, None]
            context += tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
            highest = higher
        total = tl.where(queries < length, total, 1.0)
        context = context * (gain / total)[:, None]
        put(contexts, context, start, queries, length, width, head * HEAD, HEAD, SPAN)
        at = log_sums + head.to(tl.int64) * num_rows + start + queries
        tl.store(at, highest + tl.log2(total), mask=queries < length)


@triton.jit(do_not_specialize=["num_rows"])
def attention_backward_of_queries(
    qkv,
    words,
    first_rows,
    last_rows,
    contexts,
    log_sums,
    grad_contexts,
    inner,
    grad_qkv,
    sums,
    num_rows,
    scale,
    gain,
    HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    SPAN: tl.constexpr,
    DIRECTION: tl.constexpr,
    BAR: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The queries' gradient, and (A, T) inner products of contexts and their gradients.

    With `sums` (N * tiles, 3H) float32 also that gradient's sum over each tile's rows.
    """
    start, length = sequence(first_rows, last_rows)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    width = HEADS * HEAD
    grad_q = tl.zeros([TILE, SPAN], tl.float32)
    if first < length:
        queries = first + tl.arange(0, TILE)
        at = head.to(tl.int64) * num_rows + start + queries
        q = tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
        context = tile(contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
        grad = tile(grad_contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
        log_sum = tl.load(log_sums + at, mask=queries < length, other=0.0)
        product = tl.sum(context.to(tl.float32) * grad.to(tl.float32), 1) / gain
        tl.store(inner + at, product, mask=queries < length)
        if BAR > 0:
            query_words = tl.load(words + start + queries, mask=queries < length, other=0)
        begin, end = 0, length
        if DIRECTION == LEFT_TO_RIGHT:
            end = tl.minimum(length, first + TILE)
        if DIRECTION == RIGHT_TO_LEFT:
            begin = first
        for key in range(begin, end, TILE):
            keys = key + tl.arange(0, TILE)
            k = tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
            v = tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
            scores = scores_of(
                q, k, queries[:, None], keys[None, :], length, scale, DIRECTION, PRECISION
            )
            weights = tl.exp2(scores - log_sum[:, None])
            grad_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            if BAR > 0:
                is_kept = keeps_weight(query_words[:, None], keys[None, :], head, BAR)
                grad_weights = tl.where(is_kept, grad_weights, 0.0)
            grad_scores = weights * (grad_weights - product[:, None])
            grad_q += tl.dot(grad_scores.to(k.dtype), k, input_precision=PRECISION)
        grad_q *= scale * gain
        put(grad_qkv, grad_q, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
    if sums is not None:
        put_sum(sums, tl.sum(grad_q, 0), width, head * HEAD, HEAD, SPAN)


@triton.jit(do_not_specialize=["num_rows"])
def attention_backward_of_keys(
    qkv,
    words,
    first_rows,
    last_rows,
    log_sums,
    grad_contexts,
    inner,
    grad_qkv,
    sums,
    num_rows,
    scale,
    gain,
    HEADS: tl.constexpr,
    HEAD: tl.constexpr,
    SPAN: tl.constexpr,
    DIRECTION: tl.constexpr,
    BAR: tl.constexpr,
    TILE: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """The gradients of one tile of keys and of their values, and their `sums` as above."""
    start, length = sequence(first_rows, last_rows)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    width = HEADS * HEAD
    column = width + head * HEAD
    grad_k = tl.zeros([TILE, SPAN], tl.float32)
    grad_v = tl.zeros([TILE, SPAN], tl.float32)
    if first < length:
        keys = first + tl.arange(0, TILE)
        k = tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
        v = tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
        zero = 0.0 * gain  # as on the way there
        begin, end = 0, length
        if DIRECTION == LEFT_TO_RIGHT:
            begin = first
        if DIRECTION == RIGHT_TO_LEFT:
            end = tl.minimum(length, first + TILE)
        for query in range(begin, end, TILE):
            queries = query + tl.arange(0, TILE)
            at = head.to(tl.int64) * num_rows + start + queries
            q = tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
            grad = tile(grad_contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
            log_sum = tl.load(log_sums + at, mask=queries < length, other=0.0)
            product = tl.load(inner + at, mask=queries < length, other=0.0)
            scores = scores_of(
                q, k, queries[:, None], keys[None, :], length, scale, DIRECTION, PRECISION
            )
            weights = tl.exp2(scores - log_sum[:, None])
            grad_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            kept = weights
            if BAR > 0:
                query_words = tl.load(words + start + queries, mask=queries < length, other=0)
                is_kept = keeps_weight(query_words[:, None], keys[None, :], head, BAR)
                kept = tl.where(is_kept, weights, zero)
                grad_weights = tl.where(is_kept, grad_weights, 0.0)
            grad_scores = weights * (grad_weights - product[:, None])
            grad_v += tl.dot(tl.trans(kept.to(grad.dtype)), grad, input_precision=PRECISION)
            grad_k += tl.dot(tl.trans(grad_scores.to(q.dtype)), q, input_precision=PRECISION)
        grad_k *= scale * gain
        grad_v *= gain
        put(grad_qkv, grad_k, start, keys, length, 3 * width, column, HEAD, SPAN)
        put(grad_qkv, grad_v, start, keys, length, 3 * width, width + column, HEAD, SPAN)
    if sums is not None:
        put_sum(sums, tl.sum(grad_k, 0), width, column, HEAD, SPAN)
        put_sum(sums, tl.sum(grad_v, 0), width, width + column, HEAD, SPAN)
