"""Attention of short sequences in Triton: one kernel forward and one backward, one pass over each.

A program holds all keys of one sequence and one head, and walks over its queries. So a softmax sees
all its scores at once; in the backward pass scores, exponentials and dropout masks, which
`flash_kernels` computes twice, are computed once, and their tiles are transposed, (S, Q), as the
products for keys and values take them from registers. Nothing is read twice. The results differ
only in rounding and in the order of sums.

Legend: as `flash_kernels`; KEYS rows of keys S, the longest sequence at most; TILE rows of queries
Q. A program is (sequence, 0, head).
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.flash_tiles import keeps_weight, put, put_sum, scores_of, sequence, tile


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
    KEYS: tl.constexpr,
):
    """Contexts (T, H), and for later (A, T) what `flash_kernels.attention_forward` keeps too."""
    start, length = sequence(first_rows, last_rows)
    head = tl.program_id(2)
    width = HEADS * HEAD
    first = head * HEAD
    keys = tl.arange(0, KEYS)
    k = tile(qkv, start, keys, length, 3 * width, width + first, HEAD, SPAN)
    v = tile(qkv, start, keys, length, 3 * width, 2 * width + first, HEAD, SPAN)
    zero = 0.0 * gain  # as in `flash_kernels`
    for query in range(0, length, TILE):
        queries = query + tl.arange(0, TILE)
        q = tile(qkv, start, queries, length, 3 * width, first, HEAD, SPAN)
        scores = scores_of(
            q, k, queries[:, None], keys[None, :], length, scale, DIRECTION, PRECISION
        )
        # A query of the sequence sees a key at least; what others make is no number, nor written.
        highest = tl.max(scores, 1)
        weights = tl.exp2(scores - highest[:, None])
        total = tl.sum(weights, 1)
        if BAR > 0:
            query_words = tl.load(words + start + queries, mask=queries < length, other=0)
            is_kept = keeps_weight(query_words[:, None], keys[None, :], head, BAR)
            weights = tl.where(is_kept, weights, zero)
        context = tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
        context = context * (gain / total)[:, None]
        put(contexts, context, start, queries, length, width, first, HEAD, SPAN)
        at = log_sums + head.to(tl.int64) * num_rows + start + queries
        tl.store(at, highest + tl.log2(total), mask=queries < length)


@triton.jit(do_not_specialize=["num_rows"])
def attention_backward(
    qkv,
    words,
    first_rows,
    last_rows,
    contexts,
    log_sums,
    grad_contexts,
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
    KEYS: tl.constexpr,
):
    """The gradients of queries, keys and values; with `sums` (N, 3H) float32 their sums too."""
    start, length = sequence(first_rows, last_rows)
    head = tl.program_id(2)
    width = HEADS * HEAD
    first = head * HEAD
    keys = tl.arange(0, KEYS)
    k = tile(qkv, start, keys, length, 3 * width, width + first, HEAD, SPAN)
    v = tile(qkv, start, keys, length, 3 * width, 2 * width + first, HEAD, SPAN)
    grad_k = tl.zeros([KEYS, SPAN], tl.float32)
    grad_v = tl.zeros([KEYS, SPAN], tl.float32)
    sum_q = tl.zeros([SPAN], tl.float32)
    zero = 0.0 * gain  # as in `flash_kernels`
    for query in range(0, length, TILE):
        queries = query + tl.arange(0, TILE)
        at = head.to(tl.int64) * num_rows + start + queries
        q = tile(qkv, start, queries, length, 3 * width, first, HEAD, SPAN)
        context = tile(contexts, start, queries, length, width, first, HEAD, SPAN)
        grad = tile(grad_contexts, start, queries, length, width, first, HEAD, SPAN)
        log_sum = tl.load(log_sums + at, mask=queries < length, other=0.0)
        product = tl.sum(context.to(tl.float32) * grad.to(tl.float32), 1) / gain
        scores = scores_of(
            k, q, queries[None, :], keys[:, None], length, scale, DIRECTION, PRECISION
        )
        weights = tl.exp2(scores - log_sum[None, :])
        grad_weights = tl.dot(v, tl.trans(grad), input_precision=PRECISION)
        kept = weights
        if BAR > 0:
            query_words = tl.load(words + start + queries, mask=queries < length, other=0)
            is_kept = keeps_weight(query_words[None, :], keys[:, None], head, BAR)
            kept = tl.where(is_kept, weights, zero)
            grad_weights = tl.where(is_kept, grad_weights, 0.0)
        grad_scores = (weights * (grad_weights - product[None, :])).to(q.dtype)
        grad_v += tl.dot(kept.to(grad.dtype), grad, input_precision=PRECISION)
        grad_k += tl.dot(grad_scores, q, input_precision=PRECISION)
        grad_q = tl.dot(tl.trans(grad_scores), k, input_precision=PRECISION) * (scale * gain)
        put(grad_qkv, grad_q, start, queries, length, 3 * width, first, HEAD, SPAN)
        sum_q += tl.sum(grad_q, 0)
    grad_k *= scale * gain
    grad_v *= gain
    put(grad_qkv, grad_k, start, keys, length, 3 * width, width + first, HEAD, SPAN)
    put(grad_qkv, grad_v, start, keys, length, 3 * width, 2 * width + first, HEAD, SPAN)
    if sums is not None:
        put_sum(sums, sum_q, width, first, HEAD, SPAN)
        put_sum(sums, tl.sum(grad_k, 0), width, width + first, HEAD, SPAN)
        put_sum(sums, tl.sum(grad_v, 0), width, 2 * width + first, HEAD, SPAN)
