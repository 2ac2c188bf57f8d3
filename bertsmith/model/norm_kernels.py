"""LayerNorm with what stands before or behind it, in Triton: one pass over memory each.

The arithmetic is that of `elementwise` and `embeddings`, in float32, with the masks of `dropout`.
On the way back what is summed over rows, the gradients of norms and of a product's bias, is summed
in the same pass. Each program adds up its own rows in their order, so every run gives the same
bits; the caller adds up what few programs left.

The kernels are long and take many arguments, because Triton knows no structures and what is kept
in registers cannot be handed around.

Legend: T rows; WIDTH columns, SPAN the next power of two; ROWS rows of a tile; P programs that
share the rows; BAR: 31-bit draws below it are dropped; `gain` 1 / (1 - p).
"""

from __future__ import annotations

import triton
import triton.language as tl

from bertsmith.model.dropout_kernels import keeps, mixed


@triton.jit
def _rows_from(first, num_rows, columns, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Rows of a tile, (ROWS,), and which are there; its cells, (ROWS, SPAN), and which are."""
    rows = first + tl.arange(0, ROWS)
    is_row = rows < num_rows
    cells = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    return rows, is_row, cells, is_row[:, None] & (columns < WIDTH)[None, :]


@triton.jit
def _put_sums(sums, number, tile, columns, WIDTH: tl.constexpr):
    """The sum of a tile's rows, to this program's place among the (P, WIDTH) of that number."""
    row = number * tl.num_programs(0) + tl.program_id(0)
    tl.store(sums + row * WIDTH + columns, tl.sum(tile, 0), mask=columns < WIDTH)


@triton.jit
def _column(vector, columns, WIDTH: tl.constexpr):
    """(1, SPAN) float32."""
    return tl.load(vector + columns, mask=columns < WIDTH, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _statistics(total, is_real, epsilon, WIDTH: tl.constexpr):
    """Of (ROWS, SPAN) rows: what is left of them without their means; means; 1 / deviations."""
    mean = tl.sum(total, 1) / WIDTH
    centred = tl.where(is_real, total - mean[:, None], 0.0)
    return centred, mean, 1.0 / tl.sqrt(tl.sum(centred * centred, 1) / WIDTH + epsilon)


@triton.jit
def _through_norm(grad, normed, scale, WIDTH: tl.constexpr):
    """The gradient, weighted, of what a norm gave -> that of what it was given."""
    slope, mean = tl.sum(grad * normed, 1) / WIDTH, tl.sum(grad, 1) / WIDTH
    return (grad - normed * slope[:, None] - mean[:, None]) * scale[:, None]


@triton.jit
def _factors(words, columns, gain, BAR: tl.constexpr):
    """(ROWS, SPAN) `gain` where dropout keeps, zero where it does not."""
    return tl.where(keeps(words[:, None], columns[None, :], BAR), gain, 0.0)


@triton.jit
def _total(output, residual, cells, is_real, words, columns, gain, BAR: tl.constexpr):
    """The residual + dropout(output) of a tile, float32; and dropout's factors, or ones."""
    product = tl.load(output + cells, mask=is_real, other=0.0).to(tl.float32)
    factors = tl.full(cells.shape, 1.0, tl.float32)
    if BAR > 0:
        factors = _factors(words, columns, gain, BAR)
        product *= factors
    return tl.load(residual + cells, mask=is_real, other=0.0).to(tl.float32) + product, factors


@triton.jit(do_not_specialize=["num_rows"])
def add_and_norm(
    output,
    residual,
    words,
    weight,
    bias,
    states,
    means,
    scales,
    num_rows,
    epsilon,
    gain,
    BAR: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """States (T, WIDTH) = LayerNorm(residual + dropout(output)).

    And for later (T,): means, and one over deviations.
    """
    columns = tl.arange(0, SPAN)
    first = tl.program_id(0) * ROWS
    rows, is_row, cells, is_real = _rows_from(first, num_rows, columns, WIDTH, ROWS)
    row_words = rows
    if BAR > 0:
        row_words = tl.load(words + rows, mask=is_row, other=0)
    total, _ = _total(output, residual, cells, is_real, row_words, columns, gain, BAR)
    centred, mean, scale = _statistics(total, is_real, epsilon, WIDTH)
    normed = centred * scale[:, None] * _column(weight, columns, WIDTH)
    normed += _column(bias, columns, WIDTH)
    tl.store(states + cells, normed.to(states.dtype.element_ty), mask=is_real)
    tl.store(means + rows, mean, mask=is_row)
    tl.store(scales + rows, scale, mask=is_row)


@triton.jit(do_not_specialize=["num_rows"])
def add_and_norm_backward(
    gradient,
    output,
    residual,
    words,
    weight,
    means,
    scales,
    grad_output,
    grad_residual,
    sums,
    num_rows,
    gain,
    BAR: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """Both gradients (T, WIDTH); without dropout they are one, and `grad_output` is not written.

    And each program's sums over its rows, (3, P, WIDTH) float32: of the gradients of the norm's
    weight and bias, and of the bias of the product that `output` is.
    """
    columns = tl.arange(0, SPAN)
    factor = _column(weight, columns, WIDTH)
    of_weight = tl.zeros([ROWS, SPAN], tl.float32)
    of_bias = tl.zeros([ROWS, SPAN], tl.float32)
    of_output = tl.zeros([ROWS, SPAN], tl.float32)
    for first in range(tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS):
        rows, is_row, cells, is_real = _rows_from(first, num_rows, columns, WIDTH, ROWS)
        row_words = rows
        if BAR > 0:
            row_words = tl.load(words + rows, mask=is_row, other=0)
        total, factors = _total(output, residual, cells, is_real, row_words, columns, gain, BAR)
        mean = tl.load(means + rows, mask=is_row, other=0.0)
        scale = tl.load(scales + rows, mask=is_row, other=0.0)
        normed = tl.where(is_real, (total - mean[:, None]) * scale[:, None], 0.0)
        grad = tl.load(gradient + cells, mask=is_real, other=0.0).to(tl.float32)
        of_weight += grad * normed
        of_bias += grad
        grad = _through_norm(grad * factor, normed, scale, WIDTH)
        tl.store(grad_residual + cells, grad.to(grad_residual.dtype.element_ty), mask=is_real)
        if BAR > 0:
            grad *= factors
            tl.store(grad_output + cells, grad.to(grad_output.dtype.element_ty), mask=is_real)
        of_output += tl.where(is_real, grad, 0.0)
    _put_sums(sums, 0, of_weight, columns, WIDTH)
    _put_sums(sums, 1, of_bias, columns, WIDTH)
    _put_sums(sums, 2, of_output, columns, WIDTH)


@triton.jit
def _looked_up(table, size, ids, columns, is_row, WIDTH: tl.constexpr):
    """(ROWS, SPAN) rows of a table of that size, float32; of an id beyond it, no numbers."""
    ids = tl.load(ids, mask=is_row, other=0)
    is_there = (ids >= 0) & (ids < size)
    cells = ids[:, None] * WIDTH + columns[None, :]
    is_read = (is_row & is_there)[:, None] & (columns < WIDTH)[None, :]
    rows = tl.load(table + cells, mask=is_read, other=0.0).to(tl.float32)
    return tl.where(is_there[:, None], rows, float("nan"))


@triton.jit(do_not_specialize=["num_tokens", "num_segments", "num_places", "num_rows", "site"])
def embed_and_norm(
    states,
    token_ids,
    segment_ids,
    positions,
    tokens,
    segments,
    places,
    num_tokens,
    num_segments,
    num_places,
    keys,
    weight,
    bias,
    totals,
    means,
    scales,
    num_rows,
    site,
    epsilon,
    gain,
    BAR: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """States (T, WIDTH) = dropout(LayerNorm(token + segment + position)).

    Tables have so many rows. And for later the sums themselves, rounded as states are, and (T,)
    means and one over deviations. `keys`: the (T,) row keys that dropout's words are made of.
    """
    columns = tl.arange(0, SPAN)
    first = tl.program_id(0) * ROWS
    rows, is_row, cells, is_real = _rows_from(first, num_rows, columns, WIDTH, ROWS)
    total = _looked_up(tokens, num_tokens, token_ids + rows, columns, is_row, WIDTH)
    total += _looked_up(segments, num_segments, segment_ids + rows, columns, is_row, WIDTH)
    total += _looked_up(places, num_places, positions + rows, columns, is_row, WIDTH)
    tl.store(totals + cells, total.to(totals.dtype.element_ty), mask=is_real)
    total = total.to(totals.dtype.element_ty).to(tl.float32)  # as the way back will find them
    centred, mean, scale = _statistics(total, is_real, epsilon, WIDTH)
    normed = centred * scale[:, None] * _column(weight, columns, WIDTH)
    normed += _column(bias, columns, WIDTH)
    if BAR > 0:
        words = mixed(tl.load(keys + rows, mask=is_row, other=0) ^ site)
        normed *= _factors(words, columns, gain, BAR)
    tl.store(states + cells, normed.to(states.dtype.element_ty), mask=is_real)
    tl.store(means + rows, mean, mask=is_row)
    tl.store(scales + rows, scale, mask=is_row)


@triton.jit(do_not_specialize=["num_rows", "site"])
def embed_and_norm_backward(
    gradient,
    totals,
    keys,
    weight,
    means,
    scales,
    grad_totals,
    sums,
    num_rows,
    site,
    gain,
    BAR: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    ROWS: tl.constexpr,
):
    """The gradient of the sums, (T, WIDTH) in the type of `grad_totals`.

    And each program's sums over its rows, (2, P, WIDTH) float32: of the gradients of the norm's
    weight and bias.
    """
    columns = tl.arange(0, SPAN)
    factor = _column(weight, columns, WIDTH)
    of_weight = tl.zeros([ROWS, SPAN], tl.float32)
    of_bias = tl.zeros([ROWS, SPAN], tl.float32)
    for first in range(tl.program_id(0) * ROWS, num_rows, tl.num_programs(0) * ROWS):
        rows, is_row, cells, is_real = _rows_from(first, num_rows, columns, WIDTH, ROWS)
        total = tl.load(totals + cells, mask=is_real, other=0.0).to(tl.float32)
        mean = tl.load(means + rows, mask=is_row, other=0.0)
        scale = tl.load(scales + rows, mask=is_row, other=0.0)
        normed = tl.where(is_real, (total - mean[:, None]) * scale[:, None], 0.0)
        grad = tl.load(gradient + cells, mask=is_real, other=0.0).to(tl.float32)
        if BAR > 0:
            words = mixed(tl.load(keys + rows, mask=is_row, other=0) ^ site)
            grad *= _factors(words, columns, gain, BAR)
        of_weight += grad * normed
        of_bias += grad
        grad = _through_norm(grad * factor, normed, scale, WIDTH)
        tl.store(grad_totals + cells, grad.to(grad_totals.dtype.element_ty), mask=is_real)
    _put_sums(sums, 0, of_weight, columns, WIDTH)
    _put_sums(sums, 1, of_bias, columns, WIDTH)
