"""Attention of a packed stream in Triton: one kernel forward, two backward, no scores in memory.

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

from bertsmith.model.dropout import HEAD_BITS
from bertsmith.model.dropout_kernels import keeps

_HEAD_BITS = tl.constexpr(HEAD_BITS)
_LOG2_E = tl.constexpr(1.4426950408889634)
LEFT_TO_RIGHT, RIGHT_TO_LEFT = tl.constexpr(1), tl.constexpr(2)


@triton.jit
def _keeps(words, keys, head, BAR: tl.constexpr):
    """(Q, S) true where a probability is kept; attention's columns are (head, key)."""
    return keeps(words, (head << _HEAD_BITS) | keys, BAR)


@triton.jit
def _sees(queries, keys, length, DIRECTION: tl.constexpr):
    """(Q, S) true where a token of the sequence looks at one that it may see."""
    visible = (queries < length)[:, None] & (keys < length)[None, :]
    if DIRECTION == LEFT_TO_RIGHT:
        visible = visible & (keys[None, :] <= queries[:, None])
    if DIRECTION == RIGHT_TO_LEFT:
        visible = visible & (keys[None, :] >= queries[:, None])
    return visible


@triton.jit
def _scores(q, k, sees, scale, PRECISION: tl.constexpr):
    """(Q, S) scores in units of log 2; of keys that are not seen minus infinity."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (scale * _LOG2_E)
    return tl.where(sees, scores, -float("inf"))


@triton.jit
def _tile(matrix, start, places, length, stride, column, HEAD: tl.constexpr, SPAN: tl.constexpr):
    """Rows of one sequence, columns of one head, (places, SPAN); zero beyond either's end."""
    columns = tl.arange(0, SPAN)
    cells = places[:, None] * stride + columns[None, :]
    is_real = (places < length)[:, None] & (columns < HEAD)[None, :]
    return tl.load(matrix + start * stride + column + cells, mask=is_real, other=0.0)


@triton.jit
def _put(
    matrix, tile, start, places, length, stride, column, HEAD: tl.constexpr, SPAN: tl.constexpr
):
    """Writes what `_tile` reads."""
    columns = tl.arange(0, SPAN)
    cells = places[:, None] * stride + columns[None, :]
    is_real = (places < length)[:, None] & (columns < HEAD)[None, :]
    tl.store(
        matrix + start * stride + column + cells, tile.to(matrix.dtype.element_ty), mask=is_real
    )


@triton.jit
def _put_sums(sums, tile, width, column, HEAD: tl.constexpr, SPAN: tl.constexpr):
    """The sum of a tile's rows, to this program's place in (N * tiles, 3H)."""
    columns = tl.arange(0, SPAN)
    row = (tl.program_id(0) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64)
    tl.store(sums + row * 3 * width + column + columns, tl.sum(tile, 0), mask=columns < HEAD)


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
    start = tl.load(first_rows + tl.program_id(0))
    length = (tl.load(last_rows + tl.program_id(0)) + 1 - start).to(tl.int32)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    if first < length:
        width = HEADS * HEAD
        queries = first + tl.arange(0, TILE)
        q = _tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
        if BAR > 0:
            query_words = tl.load(words + start + queries, mask=queries < length, other=0)
        begin, end = 0, length
        if DIRECTION == LEFT_TO_RIGHT:
            end = tl.minimum(length, first + TILE)
        if DIRECTION == RIGHT_TO_LEFT:
            begin = first
        highest = tl.full([TILE], -float("inf"), tl.float32)
        total = tl.zeros([TILE], tl.float32)
        context = tl.zeros([TILE, SPAN], tl.float32)
        for key in range(begin, end, TILE):
            keys = key + tl.arange(0, TILE)
            k = _tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
            v = _tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
            sees = _sees(queries, keys, length, DIRECTION)
            scores = _scores(q, k, sees, scale, PRECISION)
            higher = tl.maximum(highest, tl.max(scores, 1))
            # A row past the end sees nothing, and has no highest score to be measured from.
            ground = tl.where(higher == -float("inf"), 0.0, higher)
            weights = tl.exp2(scores - ground[:, None])
            shrink = tl.exp2(highest - ground)
            total = total * shrink + tl.sum(weights, 1)
            if BAR > 0:
                weights = tl.where(_keeps(query_words, keys, head, BAR), weights, 0.0)
            context = context * shrink[:, None]
            context += tl.dot(weights.to(v.dtype), v, input_precision=PRECISION)
            highest = higher
        total = tl.where(queries < length, total, 1.0)
        context = context * (gain / total)[:, None]
        _put(contexts, context, start, queries, length, width, head * HEAD, HEAD, SPAN)
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
    start = tl.load(first_rows + tl.program_id(0))
    length = (tl.load(last_rows + tl.program_id(0)) + 1 - start).to(tl.int32)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    width = HEADS * HEAD
    grad_q = tl.zeros([TILE, SPAN], tl.float32)
    if first < length:
        queries = first + tl.arange(0, TILE)
        at = head.to(tl.int64) * num_rows + start + queries
        q = _tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
        context = _tile(contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
        grad = _tile(grad_contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
        log_sum = tl.load(log_sums + at, mask=queries < length, other=0.0)
        product = tl.sum(context.to(tl.float32) * grad.to(tl.float32), 1)
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
            k = _tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
            v = _tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
            sees = _sees(queries, keys, length, DIRECTION)
            scores = _scores(q, k, sees, scale, PRECISION)
            weights = tl.exp2(scores - log_sum[:, None])
            grad_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            if BAR > 0:
                is_kept = _keeps(query_words, keys, head, BAR)
                grad_weights = tl.where(is_kept, grad_weights * gain, 0.0)
            grad_scores = weights * (grad_weights - product[:, None])
            grad_q += tl.dot(grad_scores.to(k.dtype), k, input_precision=PRECISION)
        grad_q *= scale
        _put(grad_qkv, grad_q, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
    if sums is not None:
        _put_sums(sums, grad_q, width, head * HEAD, HEAD, SPAN)


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
    start = tl.load(first_rows + tl.program_id(0))
    length = (tl.load(last_rows + tl.program_id(0)) + 1 - start).to(tl.int32)
    first = tl.program_id(1) * TILE
    head = tl.program_id(2)
    width = HEADS * HEAD
    column = width + head * HEAD
    grad_k = tl.zeros([TILE, SPAN], tl.float32)
    grad_v = tl.zeros([TILE, SPAN], tl.float32)
    if first < length:
        keys = first + tl.arange(0, TILE)
        k = _tile(qkv, start, keys, length, 3 * width, width + head * HEAD, HEAD, SPAN)
        v = _tile(qkv, start, keys, length, 3 * width, 2 * width + head * HEAD, HEAD, SPAN)
        begin, end = 0, length
        if DIRECTION == LEFT_TO_RIGHT:
            begin = first
        if DIRECTION == RIGHT_TO_LEFT:
            end = tl.minimum(length, first + TILE)
        for query in range(begin, end, TILE):
            queries = query + tl.arange(0, TILE)
            at = head.to(tl.int64) * num_rows + start + queries
            q = _tile(qkv, start, queries, length, 3 * width, head * HEAD, HEAD, SPAN)
            grad = _tile(grad_contexts, start, queries, length, width, head * HEAD, HEAD, SPAN)
            log_sum = tl.load(log_sums + at, mask=queries < length, other=0.0)
            product = tl.load(inner + at, mask=queries < length, other=0.0)
            sees = _sees(queries, keys, length, DIRECTION)
            scores = _scores(q, k, sees, scale, PRECISION)
            weights = tl.exp2(scores - log_sum[:, None])
            grad_weights = tl.dot(grad, tl.trans(v), input_precision=PRECISION)
            kept = weights
            if BAR > 0:
                query_words = tl.load(words + start + queries, mask=queries < length, other=0)
                is_kept = _keeps(query_words, keys, head, BAR)
                kept = tl.where(is_kept, weights * gain, 0.0)
                grad_weights = tl.where(is_kept, grad_weights * gain, 0.0)
            grad_scores = weights * (grad_weights - product[:, None])
            grad_v += tl.dot(tl.trans(kept.to(grad.dtype)), grad, input_precision=PRECISION)
            grad_k += tl.dot(tl.trans(grad_scores.to(q.dtype)), q, input_precision=PRECISION)
        grad_k *= scale
        _put(grad_qkv, grad_k, start, keys, length, 3 * width, column, HEAD, SPAN)
        _put(grad_qkv, grad_v, start, keys, length, 3 * width, width + column, HEAD, SPAN)
    if sums is not None:
        _put_sums(sums, grad_k, width, column, HEAD, SPAN)
        _put_sums(sums, grad_v, width, width + column, HEAD, SPAN)
