"""A Transformer layer on a GPU: matrix products, and between two of them one kernel at most.

One function forward and one backward, so that autograd's many small kernels do not run between two
products: a residual's gradient is added by the product that makes the other gradient, dropout's is
computed with the norm's, and the gradients of biases are summed on the way. Values,
gradients and dropout masks are those of `layer.Layer` made of operators, which is the definition
and takes what these do not: other devices and types, wider states and heads, activations other than
GELU, weights of which only some learn, autocast, tracing, and parts that somebody watches or
changed.

Differs: what comes to a hidden state from a product and from its residual is added up before it is
rounded, and so are gradients of biases, but those of queries, keys and values of many short
sequences. On Hopper GPUs a gradient is rounded behind GELU's slope alone (`gpu_products`).

Legend: T tokens, R rows asked for (all T if none are named), H hidden size, F feed-forward size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.model import flash_attention, gpu_norm, gpu_products, gpu_sums
from bertsmith.model.dropout import SITES_PER_LAYER, signed32, site_number
from bertsmith.model.first_order import first_order
from bertsmith.model.flash_attention import Asked
from bertsmith.model.gpu_norm import Norm
from bertsmith.model.layer_rules import NUM_MAPS, NUM_WEIGHTS, LayerRules, are_of_one_layer
from bertsmith.model.stream import Stream

GELU_TILE = {"VALUES": 2048}
GELU_BACKWARD_TILE = {"ROWS": 8, "COLUMNS": 256}
WORDS_TILE = {"ROWS": 1024}
OPTIONS = {"num_warps": 4}
_GELU_PROGRAMS = 264
"""That share the rows, for each tile's columns; more would leave more sums to add up."""
_ALIGNED = 32
"""Words that a row of them is a multiple of, so that kernels read it in whole lines."""


def may_suit(hidden: Tensor) -> bool:
    """Whether it is worth asking."""
    return hidden.is_cuda and not torch.compiler.is_compiling()


def suits(hidden: Tensor, weights: Sequence[Tensor], rules: LayerRules) -> bool:
    """Whether kernels are there for these weights, and all of them learn or nobody asks."""
    maps, norms = weights[: 2 * NUM_MAPS], weights[2 * NUM_MAPS :]
    width = len(weights[-1])
    return (
        may_suit(hidden)
        and rules.activation == "gelu"
        and width <= gpu_norm.WIDEST
        and hidden.dim() == 2
        and hidden.shape[1] == width
        and len(hidden) > 0
        and are_of_one_layer(weights)
        and all(each.device == hidden.device and each.is_contiguous() for each in weights)
        and all(each.dtype == hidden.dtype for each in maps)
        and all(each.dtype in (torch.float32, hidden.dtype) for each in norms)
        and (not torch.is_grad_enabled() or all(each.requires_grad for each in weights))
        and not torch.is_autocast_enabled("cuda")  # which asks for another type of products
        and flash_attention.takes_width(hidden, width, rules.attention)
    )


def through(
    hidden: Tensor,
    stream: Stream,
    rows: Tensor | None,
    weights: Sequence[Tensor],
    rules: LayerRules,
) -> Tensor:
    """(T, H) hidden states -> (T, H), or with (R,) `rows` of these alone, (R, H).

    `weights`: weight and bias of the maps to queries, keys and values, from contexts, up and down,
    and of both norms.
    """
    given = (hidden.contiguous(), stream.row_keys, rows, stream, rules)
    output: Tensor = _GpuLayer.apply(*given, *weights)  # type: ignore[no-untyped-call]
    return output


class _GpuLayer(torch.autograd.Function):
    """Of (T, H) hidden states, (T,) row keys of dropout and (R,) rows."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        keys: Tensor | None,
        rows: Tensor | None,
        stream: Stream,
        rules: LayerRules,
        *weights: Tensor,
    ) -> Tensor:
        states, kept = forward(hidden, keys, rows, stream, weights, rules)
        ctx.save_for_backward(*kept, *weights)
        ctx.stream, ctx.rules = stream, rules
        return states

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        saved = ctx.saved_tensors  # once: what is computed anew for this gives them once
        kept, weights = saved[:-NUM_WEIGHTS], saved[-NUM_WEIGHTS:]
        given = (gradients[0].contiguous(), kept, ctx.stream, weights, ctx.rules)
        grad_hidden, of_weights = backward(*given)
        return grad_hidden, None, None, None, None, *of_weights


def forward(
    hidden: Tensor,
    keys: Tensor | None,
    rows: Tensor | None,
    stream: Stream,
    weights: Sequence[Tensor],
    rules: LayerRules,
) -> tuple[Tensor, list[Any]]:
    """As `through`, without autograd, and what `backward` asks for; of (T,) row `keys`."""
    qkv_weight, qkv_bias, out_weight, out_bias = weights[:4]
    up_weight, up_bias, down_weight, down_bias = weights[4 : 2 * NUM_MAPS]
    words = _words(keys, rules)
    qkv = torch.addmm(qkv_bias, hidden, qkv_weight.t())  # (T, 3H)
    attention_words = words[0] if rules.attention.probability > 0.0 else None
    asked = Asked(qkv=qkv, words=attention_words, stream=stream, rules=rules.attention)
    made = flash_attention.forward(asked)
    context, residual = _asked(made[0], rows), _asked(hidden, rows)  # (R, H)
    words_of = [None if each is None else _asked(each, rows) for each in words[1:]]  # (R,)
    output = torch.addmm(out_bias, context, out_weight.t())  # (R, H)
    attended, norm = gpu_norm.add_and_norm(
        output, residual, words_of[0], weights[-4:-2], rules.probability, rules.epsilons[0]
    )
    inner, active = _through_gelu(attended, up_weight, up_bias)  # (R, F)
    output = torch.addmm(down_bias, active, down_weight.t())  # (R, H)
    states, last_norm = gpu_norm.add_and_norm(
        output, attended, words_of[1], weights[-2:], rules.probability, rules.epsilons[1]
    )
    asked_of = (hidden, rows, attention_words, qkv, *made, context, inner, active)
    return states, [*asked_of, *norm, *last_norm]


def backward(
    gradient: Tensor,
    kept: Sequence[Any],
    stream: Stream,
    weights: Sequence[Tensor],
    rules: LayerRules,
) -> tuple[Tensor, list[Tensor]]:
    """The gradient of the states, (R, H) -> that of hidden states, (T, H), and of all weights."""
    hidden, rows, words, qkv, *made = kept[:6]
    context, inner, active = kept[6:9]
    norm, last_norm = Norm(*kept[9:14]), Norm(*kept[14:19])
    qkv_weight, _, out_weight, _, up_weight, _, down_weight, _ = weights[: 2 * NUM_MAPS]
    attended = last_norm.residual

    grad_output, grad_attended, of_last_norm, of_down_bias = gpu_norm.add_and_norm_backward(
        gradient, last_norm, weights[-2], rules.probability
    )
    of_down = grad_output.t() @ active  # (H, F)
    grad_inner, of_up_bias = _back_through_gelu(grad_output, down_weight, inner)  # (R, F)
    of_up = grad_inner.t() @ attended  # (F, H)
    grad_attended = grad_attended.addmm_(grad_inner, up_weight)  # (R, H)

    grad_output, grad_hidden, of_norm, of_out_bias = gpu_norm.add_and_norm_backward(
        grad_attended, norm, weights[-4], rules.probability
    )
    of_out = grad_output.t() @ context  # (H, H)
    grad_context = grad_output @ out_weight  # (R, H)
    if rows is not None:
        grad_context = torch.zeros_like(hidden).index_add_(0, rows, grad_context)  # (T, H)
    asked = Asked(qkv=qkv, words=words, stream=stream, rules=rules.attention)
    grad_qkv, total = flash_attention.backward_and_sum(asked, made, grad_context)  # (T, 3H)
    of_qkv, of_qkv_bias = grad_qkv.t() @ hidden, total.to(qkv.dtype)  # (3H, H), (3H,)
    if rows is not None:  # to zeros, where two that meet give the same bits in either order
        grad_hidden = torch.zeros_like(hidden).index_add_(0, rows, grad_hidden)  # (T, H)
    grad_hidden = grad_hidden.addmm_(grad_qkv, qkv_weight)  # (T, H)
    maps = (of_qkv, of_qkv_bias, of_out, of_out_bias, of_up, of_up_bias, of_down, of_down_bias)
    return grad_hidden, [*maps, *of_norm, *of_last_norm]


def _asked(each: Tensor, rows: Tensor | None) -> Tensor:
    """Of T rows those that are asked for."""
    return each if rows is None else each.index_select(0, rows)


def _words(keys: Tensor | None, rules: LayerRules) -> list[Tensor | None]:
    """(T,) row keys -> the (T,) words of each site of the layer; without dropout none."""
    if keys is None or max(rules.probability, rules.attention.probability) == 0.0:
        return [None] * SITES_PER_LAYER
    from bertsmith.model import dropout_kernels

    num_rows = len(keys)
    words = keys.new_empty((SITES_PER_LAYER, -(-num_rows // _ALIGNED) * _ALIGNED))
    sites = [signed32(site_number(rules.number, site)) for site in range(SITES_PER_LAYER)]
    grid = (-(-num_rows // WORDS_TILE["ROWS"]), 1, 1)
    arguments: list[Tensor | int] = [keys, words, num_rows, words.shape[1], *sites]
    gpu_kernels.launch(dropout_kernels.site_words, grid, arguments, WORDS_TILE, OPTIONS)
    return [row[:num_rows] for row in words.unbind()]


def _through_gelu(attended: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """(R, H) states through the map up: what it makes of them, and GELU of that, (R, F) both."""
    if gpu_products.suits(attended, weight, bias):
        return gpu_products.up_and_gelu(attended, weight, bias)
    inner = torch.addmm(bias, attended, weight.t())
    return inner, _gelu(inner)


def _back_through_gelu(gradient: Tensor, weight: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient (R, H) of the map down -> that of GELU's arguments, (R, F), and of a bias."""
    if gpu_products.suits(gradient, weight, inner):
        return gpu_products.down_backward(gradient, weight, inner)
    return _gelu_backward(inner, gradient @ weight)


def _gelu(inner: Tensor) -> Tensor:
    """Of each of (R, F) numbers."""
    from bertsmith.model import gelu_kernels

    num_rows, width = inner.shape
    active = torch.empty_like(inner)
    grid = (-(-inner.numel() // GELU_TILE["VALUES"]), 1, 1)
    constants = {"WIDTH": width, **GELU_TILE}
    gpu_kernels.launch(gelu_kernels.gelu, grid, (inner, active, num_rows), constants, OPTIONS)
    return active


def _gelu_backward(inner: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient (R, F) of GELU's results, overwritten -> of its arguments, and of a bias."""
    from bertsmith.model import gelu_kernels

    num_rows, width = inner.shape
    num_programs = min(_GELU_PROGRAMS, -(-num_rows // GELU_BACKWARD_TILE["ROWS"]))
    grid = (num_programs, -(-width // GELU_BACKWARD_TILE["COLUMNS"]), 1)
    sums = inner.new_empty((num_programs, width), dtype=torch.float32)
    arguments = (inner, gradient, sums, num_rows)
    constants = {"WIDTH": width, **GELU_BACKWARD_TILE}
    gpu_kernels.launch(gelu_kernels.gelu_backward, grid, arguments, constants, OPTIONS)
    return gradient, gpu_sums.of_rows(sums, inner.dtype)
