"""The kernels in Triton of a step of BASE on a GPU, each with numbers of its own to be timed on.

And with what else may be tried in the place of its module's constants. How they are timed stands in
`gpu_kernels`.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from unittest import mock

import torch
from torch import Tensor

from benchmarks.batches import synthetic
from bertsmith.model import (
    flash_attention,
    gpu_layer,
    gpu_norm,
    gpu_products,
    gpu_sums,
    gpu_vocabulary_loss,
)
from bertsmith.model.attention_rules import AttentionRules
from bertsmith.model.config import BASE
from bertsmith.model.dropout import site_words
from bertsmith.model.flash_attention import Asked
from bertsmith.model.stream import Stream
from bertsmith.train import gpu_updates
from bertsmith.train.updates import Flat, Rates

TOKENS = 65_536
MASKED = 9_830
WORDS = 30_528
WEIGHTS = 110_000_000
_HALF, _WIDE = 2, 4  # bytes
_WARPS = ({"num_warps": 4}, {"num_warps": 8})


class Constants(NamedTuple):
    """In place of those of a module."""

    module: object
    values: Mapping[str, object]

    def in_place(self) -> contextlib.AbstractContextManager[object]:
        """While it is held the module has them."""
        return mock.patch.multiple(self.module, **self.values)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One, and what else may be tried."""

    name: str
    num_bytes: int
    """Read and written at least."""
    run: Callable[[], object]
    others: Mapping[str, Constants] = field(default_factory=dict)


def kernels(length: int, device: torch.device) -> Iterator[Kernel]:
    """All of a step, each with numbers of its own."""
    generator = torch.Generator(device).manual_seed(0)

    def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.randn(shape, generator=generator, device=device, dtype=dtype)

    batch = synthetic(BASE, length, TOKENS // length, 0)
    stream = Stream.of(batch.packed, device=device, dropout=(1, 2))
    yield from _of_attention(stream, drawn)
    yield from _of_layer(stream, drawn)
    yield from _of_sums(stream, drawn)
    if gpu_products.serves(device):
        yield from _of_products(drawn)
    yield from _of_loss(drawn)
    yield from _of_updates(drawn)


def _of_attention(stream: Stream, drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    width, heads, module = BASE.hidden_size, BASE.num_attention_heads, flash_attention
    rules = AttentionRules(num_heads=heads, direction="bidirectional", probability=0.1)
    words, qkv = site_words(stream.row_keys, 3, 0), drawn(TOKENS, 3 * width)
    gradient = drawn(TOKENS, width)

    def asked() -> Asked:  # anew, as it remembers its plan
        return Asked(qkv=qkv, words=words, stream=stream, rules=rules)

    made = module.forward(asked())
    states = TOKENS * width * _HALF
    options = [{**warps, "num_stages": stages} for warps in _WARPS for stages in (1, 2, 3)]
    is_short = stream.longest <= module.SHORT_KEYS[-1]
    there = {"SHORT_TILE": (32, 64, 128), "SHORT_OPTIONS": options}
    back = {"SHORT_TILE_BACK": (16, 32, 64, 128), "SHORT_OPTIONS": options}
    of_tiles = {"LAUNCH_OPTIONS": options}
    yield Kernel(
        name="attention",
        num_bytes=4 * states,
        run=lambda: module.forward(asked()),
        others=_tried(module, there if is_short else of_tiles),
    )
    yield Kernel(
        name="attention back",
        num_bytes=8 * states,
        run=lambda: module.backward_and_sum(asked(), made, gradient),
        others=_tried(module, back if is_short else of_tiles),
    )


def _of_layer(stream: Stream, drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    width, inner = BASE.hidden_size, drawn(TOKENS, BASE.intermediate_size)
    gradient = drawn(TOKENS, BASE.intermediate_size)
    num_bytes, states = inner.numel() * _HALF, TOKENS * width * _HALF
    yield Kernel(
        name="gelu",
        num_bytes=2 * num_bytes,
        run=lambda: gpu_layer._gelu(inner),
        others=_tried(gpu_layer, {"GELU_TILE": _sizes("VALUES", 512, 4096), "OPTIONS": _WARPS}),
    )
    tiles = [{"ROWS": rows, "COLUMNS": columns} for rows in (4, 8, 16) for columns in (256, 512)]
    yield Kernel(
        name="gelu back",
        num_bytes=3 * num_bytes,
        run=lambda: gpu_layer._gelu_backward(inner, gradient),
        others=_tried(gpu_layer, {"GELU_BACKWARD_TILE": tiles, "_GELU_PROGRAMS": (132, 264, 528)}),
    )
    output, residual = drawn(TOKENS, width), drawn(TOKENS, width)
    weight, bias = (drawn(width, dtype=torch.float32) for _ in range(2))
    words = site_words(stream.row_keys, 3, 1)
    given = (output, residual, words, (weight, bias), 0.1, 1e-12)
    norm = gpu_norm.add_and_norm(*given)[1]
    yield Kernel(
        name="norm",
        num_bytes=3 * states,
        run=lambda: gpu_norm.add_and_norm(*given),
        others=_tried(gpu_norm, {"TILE": _sizes("ROWS", 1, 8), "OPTIONS": _WARPS}),
    )
    yield Kernel(
        name="norm back",
        num_bytes=5 * states,
        run=lambda: gpu_norm.add_and_norm_backward(residual, norm, weight, 0.1),
        others=_tried(gpu_norm, {"_NUM_PROGRAMS": (264, 528, 792, 1056, 1584, 2112)}),
    )


def _of_sums(stream: Stream, drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    sums = drawn(2, gpu_norm._NUM_PROGRAMS, BASE.hidden_size, dtype=torch.float32)
    rows = [{"ROWS": rows, "COLUMNS": columns} for rows in (128, 256) for columns in (16, 32)]
    yield Kernel(
        name="sums",
        num_bytes=sums.numel() * _WIDE,
        run=lambda: gpu_sums.of_rows(sums, torch.float32),
        others=_tried(gpu_sums, {"ROWS_TILE": rows, "ROWS_OPTIONS": _WARPS}),
    )
    gradient = drawn(TOKENS, BASE.hidden_size, dtype=torch.float32)
    places = [
        {"SEQUENCES": count, "COLUMNS": columns} for count in (8, 16) for columns in (64, 128)
    ]
    yield Kernel(
        name="sums by place",
        num_bytes=gradient.numel() * _WIDE,
        run=lambda: gpu_sums.by_place(gradient, stream, 2, torch.bfloat16),
        others=_tried(gpu_sums, {"PLACES_TILE": places, "PLACES_OPTIONS": _WARPS}),
    )


def _of_products(drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    module, width, inner_width = gpu_products, BASE.hidden_size, BASE.intermediate_size
    states, inner, bias = drawn(TOKENS, width), drawn(TOKENS, inner_width), drawn(inner_width)
    up, down = drawn(inner_width, width), drawn(width, inner_width)
    num_bytes = (states.numel() + 2 * inner.numel() + up.numel()) * _HALF
    sizes = [{"ROWS": rows, "COLUMNS": columns} for rows, columns in ((128, 256), (256, 128))]
    tiles = [module.UP_TILE, *({**module.UP_TILE, **size} for size in sizes)]
    options = [{**warps, "num_stages": stages} for warps in _WARPS for stages in (3, 4)]
    yield Kernel(
        name="gelu in the product",
        num_bytes=num_bytes,
        run=lambda: module.up_and_gelu(states, up, bias),
        others=_tried(module, {"UP_TILE": tiles, "UP_OPTIONS": options, "UP_PROGRAMS": (1, 2)}),
    )
    yield Kernel(
        name="gelu in the product back",
        num_bytes=num_bytes,
        run=lambda: module.down_backward(states, down, inner),
        others=_tried(module, {"BACK_TILE": tiles, "BACK_OPTIONS": options}),
    )


def _of_loss(drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    module = gpu_vocabulary_loss
    logits, bias = drawn(MASKED, WORDS), drawn(WORDS)
    targets = torch.arange(MASKED, device=logits.device)
    num_bytes = logits.numel() * _HALF
    yield Kernel(
        name="loss",
        num_bytes=num_bytes,
        run=lambda: module.loss(logits, bias, targets),
        others=_tried(module, {"LANES": _sizes("LANES", 128, 512), "OPTIONS": _WARPS}),
    )
    back = {"TILE": _sizes("COLUMNS", 512, 2048), "_NUM_PROGRAMS": (1056, 1584, 2112)}
    yield Kernel(
        name="loss there and back",
        num_bytes=3 * num_bytes,
        run=lambda: module.loss_and_gradient(logits, bias, targets),
        others=_tried(module, {**back, "OPTIONS": _WARPS}),
    )


def _of_updates(drawn: Callable[..., Tensor]) -> Iterator[Kernel]:
    module, gradient = gpu_updates, drawn(WEIGHTS)
    weight, exp_avg = (drawn(WEIGHTS, dtype=torch.float32) for _ in range(2))
    flat = Flat(weight, exp_avg, exp_avg.square(), weight.bfloat16())
    rates = Rates(1e-5, 0.01, 0.9, 0.1, 0.999, 0.001, 1e-6, 1.0, 1.0)
    factor = torch.ones((), device=gradient.device)
    yield Kernel(
        name="squares",
        num_bytes=WEIGHTS * _HALF,
        run=lambda: module.squared_norm(gradient),
        others=_tried(module, {"SQUARES_TILE": _sizes("BLOCK", 1024, 4096), "OPTIONS": _WARPS}),
    )
    yield Kernel(
        name="adam",
        num_bytes=WEIGHTS * (6 * _WIDE + 2 * _HALF),
        run=lambda: module.adam(flat, gradient, rates, factor),
        others=_tried(module, {"ADAM_TILE": _sizes("BLOCK", 512, 2048), "OPTIONS": _WARPS}),
    )


def _sizes(name: str, least: int, most: int) -> list[dict[str, int]]:
    """Of a tile, each twice the one before."""
    return [{name: 1 << bits} for bits in range(least.bit_length() - 1, most.bit_length())]


def _tried(module: object, values: Mapping[str, Sequence[object]]) -> dict[str, Constants]:
    """Each of a constant's values with each of the others'."""
    found = {}
    for chosen in itertools.product(*values.values()):
        told = ", ".join(
            f"{name} {each}" if isinstance(each, int) else str(each)
            for name, each in zip(values, chosen, strict=True)
        )
        found[told] = Constants(module, dict(zip(values, chosen, strict=True)))
    return found
