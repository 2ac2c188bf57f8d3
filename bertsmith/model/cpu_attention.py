"""Self-attention of a packed stream on a CPU: no scores in memory, no padding, no blocks.

The functions of `cpu_attention.cpp` read queries, keys and values where the projection wrote them
and write contexts where the next one reads them. Values, gradients and dropout masks are those of
`block_attention`, which stays the definition and takes what these do not: other devices, float64
and float16, heads of an odd size in bfloat16, very long sequences, and a machine without a
compiler. Which of the two takes a batch is decided for all its sequences at once. Where only some
rows are asked for, as in the last layer of a training step, queries are those alone.

Differs: in bfloat16 scores are not rounded, as blocks round them; probabilities and gradients of
scores are, where they are factors of a product.

Legend: T rows, R rows asked for, N sequences, H hidden size, A heads, K = H/A.
"""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bertsmith.model.attention_rules import DIRECTION_NUMBERS, AttentionRules
from bertsmith.model.dropout import NativeDropout
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream
from bertsmith.native import call, has_fast_products, pointer, takes
from bertsmith.structures import int64s, pointers

SOURCE = Path(__file__).with_suffix(".cpp")
LONGEST = 2048
"""Tokens of a sequence, L: a thread works in 3 L^2 numbers."""
MOST_KEYS = 128
"""Keys of a query, in the mean, beyond which blocks are taken, in bfloat16 where these functions
were built without the processor's instruction or matrix unit for it: not measured, so cautiously.
Elsewhere blocks take 1.3 times the time of these functions at 128 keys, 3 times at 1,024
(docs/log.md)."""


class NativeRules(ctypes.Structure):
    """`Rules` of the sources."""

    _fields_ = (
        ("num_heads", ctypes.c_int),
        ("head_size", ctypes.c_int),
        ("direction", ctypes.c_int),
        ("scale", ctypes.c_float),
        ("dropout", NativeDropout),
    )

    @staticmethod
    def of(rules: AttentionRules, hidden_size: int, *, has_words: bool) -> NativeRules:
        """The rules for (T, H) rows, with dropout where there are words for it."""
        head_size = hidden_size // rules.num_heads
        return NativeRules(
            num_heads=rules.num_heads,
            head_size=head_size,
            direction=DIRECTION_NUMBERS[rules.direction],
            scale=1.0 / math.sqrt(head_size),
            dropout=NativeDropout.of(rules.probability, has_words=has_words),
        )


class _Heads(ctypes.Structure):
    """`Heads` of the source."""

    _fields_ = (*pointers("queries", "keys", "values"), *int64s("query_stride", "key_stride"))

    @staticmethod
    def of(queries: Tensor, others: Tensor, hidden_size: int) -> _Heads:
        """Of (R, H) queries and (T, 2H) keys and values, or of (T, 3H) that are all three."""
        assert queries.is_contiguous()
        assert others.is_contiguous()
        stride, size = others.shape[1], others.element_size()
        values = others.data_ptr() + (stride - hidden_size) * size
        keys = values - hidden_size * size
        return _Heads(queries.data_ptr(), keys, values, queries.shape[1], stride)


class NativeSequences(ctypes.Structure):
    """`Sequences` of the source."""

    _fields_ = (
        *pointers("firsts", "lasts"), *int64s("count"), *pointers("rows"), *int64s("num_rows"),
    )  # fmt: skip

    @staticmethod
    def of(stream: Stream, rows: Tensor | None) -> NativeSequences:
        """Of a stream, of which these rows are asked for; None: all."""
        firsts, lasts = stream.first_rows, stream.last_rows
        where, count = (None, -1) if rows is None else (rows.data_ptr(), rows.shape[0])
        return NativeSequences(firsts.data_ptr(), lasts.data_ptr(), firsts.shape[0], where, count)


def suits(numbers: Tensor, hidden_size: int, stream: Stream, rules: AttentionRules) -> bool:
    """Whether the functions are there for queries, keys and values as these numbers, and pay."""
    is_half = numbers.dtype == torch.bfloat16
    return (
        takes(SOURCE, numbers, stream.first_rows)
        and stream.longest <= LONGEST
        and not (is_half and hidden_size // rules.num_heads % 2)
        and not (
            is_half and stream.keys_per_query > MOST_KEYS and not has_fast_products(SOURCE, numbers)
        )
    )


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    whole = qkv.contiguous()
    return _attend(whole, whole, words, stream, None, rules)


def attend_from(
    queries: Tensor,
    keys_values: Tensor,
    words: Tensor | None,
    stream: Stream,
    rows: Tensor,
    rules: AttentionRules,
) -> Tensor:
    """(R, H) queries of some rows, (T, 2H) keys and values side by side -> (R, H) contexts.

    `rows`: (R,), in any order, each as often as it is asked for; `words`: (T,), of all rows.
    """
    rising, order = rows.to(torch.int64).sort(stable=True)
    assert not len(rising) or int(rising[-1]) < stream.num_tokens, "a spare row has no sequence"
    if words is not None:
        words = words.index_select(0, rising)
    contexts = _attend(
        queries.index_select(0, order), keys_values.contiguous(), words, stream, rising, rules
    )
    return contexts.index_select(0, order.argsort())


def _attend(
    queries: Tensor,
    others: Tensor,
    words: Tensor | None,
    stream: Stream,
    rows: Tensor | None,
    rules: AttentionRules,
) -> Tensor:
    if rules.probability == 0.0:
        words = None
    context: Tensor = _CpuAttention.apply(  # type: ignore[no-untyped-call]
        queries, others, words, stream, rows, rules
    )
    return context


class _CpuAttention(torch.autograd.Function):
    """Of (R, H) queries of rows in rising order and (T, 2H) keys and values; or of (T, 3H), all."""

    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        others: Tensor,
        words: Tensor | None,
        stream: Stream,
        rows: Tensor | None,
        rules: AttentionRules,
    ) -> Tensor:
        ctx.save_for_backward(queries, others, words, rows)
        ctx.stream, ctx.rules = stream, rules
        if rows is None:
            contexts = stream.room_for_rows(others.shape[1] // 3, others)  # (T, H)
        else:
            contexts = torch.empty_like(queries)  # (R, H)
        heads = _Heads.of(queries, others, contexts.shape[1])
        _call("forward", heads, contexts, words, stream, rows, rules, pointer(contexts))
        return contexts

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        queries, others, words, rows = ctx.saved_tensors
        stream, gradient = ctx.stream, gradients[0].contiguous()
        width = gradient.shape[1]
        grad_others = stream.room_for_rows(others.shape[1], others)  # (T, 3H) or (T, 2H)
        grad_queries = grad_others if rows is None else torch.empty_like(queries)
        heads, to = _Heads.of(queries, others, width), _Heads.of(grad_queries, grad_others, width)
        given = pointer(gradient), ctypes.byref(to)
        _call("backward", heads, gradient, words, stream, rows, ctx.rules, *given)
        return None if rows is None else grad_queries, grad_others, None, None, None, None


def _call(
    name: str,
    heads: _Heads,
    contexts: Tensor,
    words: Tensor | None,
    stream: Stream,
    rows: Tensor | None,
    rules: AttentionRules,
    *arguments: object,
) -> None:
    """Calls the function of that name for all sequences; it writes into the last argument."""
    assert words is None or (words.dtype == torch.int32 and words.shape == contexts.shape[:1])
    call(
        SOURCE,
        f"attention_{name}",
        contexts,
        ctypes.byref(heads),
        pointer(words),
        ctypes.byref(NativeSequences.of(stream, rows)),
        ctypes.byref(NativeRules.of(rules, contexts.shape[1], has_words=words is not None)),
        *arguments,
    )
