"""A GPU's layer beside its operators, for a process of its own.

    TRITON_INTERPRET=1 python -m tests.model.interpreted_layer

Triton looks for the variable once, when it is first imported. In float32: its interpreter
multiplies with numpy, which has no bfloat16.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from bertsmith.model import flash_attention, gpu_embeddings, gpu_layer, gpu_norm
from bertsmith.model.config import sized
from bertsmith.model.embeddings import Embeddings
from bertsmith.model.gpu_turns import Graphs
from bertsmith.model.init import initialise
from bertsmith.model.layer import Layer
from bertsmith.model.layers import in_turn
from bertsmith.model.stream import Stream
from tests.model.plain import random_packed
from tests.model.triton_kernels import patch_triton_once_a_function

LENGTHS = [5, 32, 1, 33]  # in tiles of 32; of 71 rows, which are filled up to 72
RATES = [(0.0, 0.0), (0.1, 0.3), (0.1, 0.0), (0.0, 0.3)]
"""Of dropout, of what is added and of attention's probabilities."""


class OfLayer(NamedTuple):
    """A layer with dropout."""

    heads: tuple[int, int]
    """How many, and the width of them all."""
    rates: tuple[float, float]
    is_asked: bool
    """Whether rows are asked for."""


class OfLayers(NamedTuple):
    """Two layers, given batches that are filled up to one size, one after the other."""

    is_asked: bool


class OfEmbeddings(NamedTuple):
    """Embeddings with dropout."""

    width: int
    rate: float
    num_segments: int


class OfGelu(NamedTuple):
    """GELU's way back on its own: of values as far from zero as that."""

    farthest: float


CASES = [
    OfGelu(farthest=0.5),
    OfGelu(farthest=9.0),
    # Each of both, and of the rates, with all rows and with those asked for.
    *(
        OfLayer(heads, rates, is_asked=(first + second) % 2 == 1)
        for first, heads in enumerate([(2, 32), (3, 48)])
        for second, rates in enumerate(RATES)
    ),
    OfLayers(is_asked=False),
    OfLayers(is_asked=True),
    *(
        OfEmbeddings(width, rate, num_segments)
        for (width, rate), num_segments in zip(
            itertools.product([32, 48], [0.0, 0.1]), [2, 3, 3, 2], strict=True
        )
    ),
]


def errors(case: OfLayer | OfLayers | OfEmbeddings | OfGelu) -> list[float]:
    """Of states and gradients, against operators in float64, as shares of their size.

    Of GELU's values and slopes the largest of them all, and that of the sums as such a share.
    """
    if isinstance(case, OfGelu):
        *pairs, (total, found) = of_gelu(case.farthest)
        largest = [float((other.double() - one).abs().max()) for one, other in pairs]
        return [*largest, float((found.double() - total).norm() / total.norm())]
    if isinstance(case, OfLayers):
        pairs = of_layers(case.is_asked)
    else:
        pairs = of_layer(*case) if isinstance(case, OfLayer) else of_embeddings(*case)
    return [float((other.double() - one).norm() / one.norm()) for one, other in pairs]


def of_gelu(farthest: float) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Values, slopes, and sums of these over rows."""
    inner = torch.linspace(-farthest, farthest, 80 * 48).reshape(80, 48)
    exact = inner.double().requires_grad_()
    values = functional.gelu(exact)
    values.sum().backward()
    assert exact.grad is not None
    found = gpu_layer._gelu(inner)
    slopes, total = gpu_layer._gelu_backward(inner, torch.ones_like(inner))
    return [(values.detach(), found), (exact.grad, slopes), (exact.grad.sum(0), total)]


def of_embeddings(
    width: int, rate: float, num_segments: int
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Operators in float64 beside kernels in float32."""
    config = replace(
        sized(1, width, 1),
        vocab_size=60,
        hidden_dropout_prob=rate,
        type_vocab_size=num_segments,
    )
    parts = Embeddings(config)
    initialise(parts, std=0.2, seed=3)
    stream = Stream.of(random_packed(LENGTHS, 60), dropout=(5, 2), is_rounded=True)
    generator = torch.Generator().manual_seed(width)
    weights = torch.randn((len(stream.token_ids), width), generator=generator)
    weights[stream.num_tokens :] = 0.0
    expected = embedded(parts.double(), stream, weights)
    parts.float().forward = lambda given: in_one_kernel(parts, given)  # type: ignore
    return list(zip(expected, embedded(parts, stream, weights), strict=True))


def in_one_kernel(parts: Embeddings, stream: Stream) -> torch.Tensor:
    """As `Embeddings.forward` calls it on a GPU."""
    tables = [each.weight for each in (parts.token, parts.segment, parts.position)]
    return gpu_embeddings.embed(stream, tables, parts.norm, parts.dropout)


def embedded(parts: Embeddings, stream: Stream, weights: torch.Tensor) -> list[torch.Tensor]:
    """States, and the gradients of all tables, the norm's weight and its bias."""
    parts.zero_grad(set_to_none=True)
    states = checkpoint(parts, stream, use_reentrant=False)
    (states * weights.to(states.dtype)).sum().backward()
    gradients = [each.grad for each in parts.parameters()]
    return [each.clone() for each in (states[: stream.num_tokens].detach(), *gradients)]


def of_layer(
    heads: tuple[int, int], rates: tuple[float, float], is_asked: bool
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Operators in float64 beside kernels in float32."""
    # The programs' own sums of queries, keys and values, and the sum of all.
    flash_attention._FEWEST_ROWS_A_SUM = 1000 if is_asked else 8
    num_heads, width = heads
    config = replace(
        sized(1, width, num_heads),
        hidden_dropout_prob=rates[0],
        attention_probs_dropout_prob=rates[1],
    )
    layer = Layer(config, 2)
    initialise(layer, std=0.2, seed=3)
    generator = torch.Generator().manual_seed(width)
    for parameter in layer.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.05)
    stream = Stream.of(random_packed(LENGTHS, 60), dropout=(5, 2), is_rounded=True)
    rows = torch.tensor([0, 4, 3, 70, 50, 37, 7, 4, 0]) if is_asked else None
    hidden, weights = torch.randn((2, len(stream.token_ids), width), generator=generator)
    weights = weights if rows is None else weights[rows]
    weights[stream.num_tokens :] = 0.0
    expected = outcome_of(layer.double(), hidden.double(), stream, rows, weights)
    layer.float().forward = lambda *given: in_one_function(layer, *given)  # type: ignore
    return list(zip(expected, outcome_of(layer, hidden, stream, rows, weights), strict=True))


def of_layers(is_asked: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Operators in float64 beside kernels in float32, in places that the batch before left full."""
    rates = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.3}
    layers = torch.nn.ModuleList(Layer(replace(sized(2, 32, 2), **rates), at) for at in range(2))
    initialise(layers, std=0.2, seed=3)
    exact = copy.deepcopy(layers).double()
    graphs = Graphs([whole for each in layers if (whole := each.learning()) is not None])
    generator, pairs = torch.Generator().manual_seed(1), []
    for lengths, num_asked in (([40, 5, 32, 1, 50], 40), ([2, 64, 59], 39)):  # of 128 rows, of 125
        stream = Stream.of(random_packed(lengths, 60), dropout=(5, len(lengths)))
        rows = torch.arange(num_asked).flip(0) if is_asked else None
        hidden, weights = torch.randn((2, stream.num_tokens, 32), generator=generator)
        outcomes = [
            outcome_through(parts, through, hidden, stream, rows, weights)
            for parts, through in ((exact, partial(in_turn, exact)), (layers, graphs.through))
        ]
        pairs += list(zip(*outcomes, strict=True))
    assert len(graphs._pairs) == 1
    return pairs


def outcome_through(
    layers: torch.nn.ModuleList,
    through: Callable[..., torch.Tensor | None],
    hidden: torch.Tensor,
    stream: Stream,
    rows: torch.Tensor | None,
    weights: torch.Tensor,
) -> list[torch.Tensor]:
    """States, and the gradients of hidden states and of matrices."""
    layers.zero_grad(set_to_none=True)
    inputs = hidden.to(next(layers.parameters())).requires_grad_()
    states = through(inputs, stream, rows)
    assert states is not None
    (states * weights[: len(states)]).sum().backward()
    gradients = [inputs.grad, *(each.grad for each in layers.parameters() if each.dim() > 1)]
    return [states.detach(), *(each for each in gradients if each is not None)]


def in_one_function(
    layer: Layer, hidden: torch.Tensor, stream: Stream, rows: torch.Tensor | None
) -> torch.Tensor:
    """As `Layer.forward` calls it on a GPU."""
    whole = layer.learning()
    assert whole is not None
    return gpu_layer.through(hidden, stream, rows, whole.weights, whole.rules)


def outcome_of(
    layer: Layer,
    hidden: torch.Tensor,
    stream: Stream,
    rows: torch.Tensor | None,
    weights: torch.Tensor,
) -> list[torch.Tensor]:
    """States, and the gradients of hidden states and of all that learns but keys' biases."""
    layer.zero_grad(set_to_none=True)
    inputs = hidden.clone().requires_grad_()
    # Computed anew for the way back, which gives what was kept once alone.
    states = checkpoint(layer, inputs, stream, rows, use_reentrant=False)
    (states * weights.to(states.dtype)).sum().backward()
    num_tokens = stream.num_tokens
    states = states[:num_tokens] if rows is None else states
    assert inputs.grad is not None
    found = [states.detach(), inputs.grad[:num_tokens]]
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad
        # A key's bias shifts all scores of a query alike: its gradient is rounding alone.
        found += gradient.chunk(3)[::2] if name == "attention.qkv.bias" else [gradient]
    return [each.clone() for each in found]


def cast(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Maps and tables to the type, norms to float32."""
    for name, parameter in module.named_parameters():
        parameter.data = parameter.data.to(torch.float32 if "norm" in name else dtype)


if __name__ == "__main__":
    patch_triton_once_a_function()
    gpu_norm._NUM_PROGRAMS, gpu_layer._GELU_PROGRAMS = 5, 3  # so that each has several tiles
    # What is not written is then not a number, and would be seen.
    torch.use_deterministic_algorithms(True)
    for case in CASES:
        print(json.dumps(errors(case)), flush=True)
