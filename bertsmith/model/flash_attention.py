"""Self-attention of a packed stream on a GPU: no scores in memory, no padding, no blocks.

The kernels of `flash_kernels` and `flash_short_kernels` read queries, keys and values where the
projection wrote them and write contexts where the next one reads them. Values, gradients and
dropout masks are those of `block_attention`, which stays the definition and takes what these do
not: other devices, float64, very wide heads, and a GPU without Triton.

Differs: a row that sees one key only has a query gradient of exactly zero there, and of rounding
alone here.

Legend: T rows, N sequences, H hidden size, A heads, K = H/A.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from bertsmith import gpu_kernels
from bertsmith.model import gpu_sums
from bertsmith.model.attention_rules import DIRECTION_NUMBERS, AttentionRules
from bertsmith.model.first_order import first_order
from bertsmith.model.stream import Stream

WIDEST_HEADS = {torch.bfloat16: 128, torch.float16: 128, torch.float32: 64}
"""K at most, by type: tiles of wider heads do not fit into a multiprocessor's registers."""
LAUNCH_OPTIONS = {"num_warps": 4, "num_stages": 3}
SHORT_KEYS = (64, 128)
"""Keys that one program holds, of sequences that have no more."""
SHORT_OPTIONS = {"num_warps": 4, "num_stages": 1}
SHORT_TILE, SHORT_TILE_BACK = 64, 32
"""Queries that such a program takes at a time, there and back."""
_FEWEST_COLUMNS = 16  # of a tile that the matrix units multiply
_FEWEST_ROWS_A_SUM = 8  # that a program is to sum up in the mean


def suits(qkv: Tensor, rules: AttentionRules) -> bool:
    """Whether the kernels take these (T, 3H) queries, keys and values."""
    return takes_width(qkv, qkv.shape[1] // 3, rules)


def takes_width(rows: Tensor, width: int, rules: AttentionRules) -> bool:
    """Whether they take hidden states of that width, of such numbers on such a device."""
    return (
        rows.is_cuda
        and width // rules.num_heads <= WIDEST_HEADS.get(rows.dtype, 0)
        and gpu_kernels.run_on(rows.device)
    )


def attend(qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules) -> Tensor:
    """(T, 3H) queries, keys and values side by side -> (T, H) contexts.

    `words`: (T,) int32 dropout words of the query rows, None without dropout.
    """
    context: Tensor = _FlashAttention.apply(  # type: ignore[no-untyped-call]
        qkv.contiguous(), words, stream, rules
    )
    return context


class _FlashAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, words: Tensor | None, stream: Stream, rules: AttentionRules
    ) -> Tensor:
        context, log_sums = forward(Asked(qkv=qkv, words=words, stream=stream, rules=rules))
        ctx.save_for_backward(qkv, words, context, log_sums)
        ctx.stream, ctx.rules = stream, rules
        return context

    @staticmethod
    @first_order
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        qkv, words, *made = ctx.saved_tensors
        asked = Asked(qkv=qkv, words=words, stream=ctx.stream, rules=ctx.rules)
        return backward(asked, made, gradients[0].contiguous()), None, None, None


def forward(asked: Asked) -> tuple[Tensor, Tensor]:
    """As `attend`, without autograd: (T, H) contexts, and what `backward` asks for with them."""
    from bertsmith.model import flash_kernels, flash_short_kernels

    qkv = asked.qkv
    context = asked.stream.room_for_rows(qkv.shape[1] // 3, qkv)  # (T, H)
    log_sums = qkv.new_empty((asked.rules.num_heads, len(qkv)), dtype=torch.float32)  # (A, T)
    if short := asked.of_short(SHORT_TILE):
        asked.launch(flash_short_kernels.attention_forward, short, context, log_sums)
    else:
        asked.launch(flash_kernels.attention_forward, asked.of_tiles, context, log_sums)
    return context, log_sums


def backward(asked: Asked, made: Sequence[Tensor], gradient: Tensor) -> Tensor:
    """The gradient of the contexts, (T, H) -> that of queries, keys and values, (T, 3H).

    `made` is what `forward` gave.
    """
    return _backward(asked, made, gradient, None)


def backward_and_sum(
    asked: Asked, made: Sequence[Tensor], gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """As `backward`, and what it gives summed over all rows: (3H,) float32, of a bias."""
    plan = asked.of_short(SHORT_TILE_BACK) or asked.of_tiles
    num_programs = plan.grid[0] * plan.grid[1]
    if num_programs * _FEWEST_ROWS_A_SUM > len(gradient):
        # Of many short sequences the programs' sums are as much as what they are the sums of.
        grad_qkv = backward(asked, made, gradient)
        return grad_qkv, grad_qkv.sum(0, dtype=torch.float32)
    sums = gradient.new_empty((num_programs, asked.qkv.shape[1]), dtype=torch.float32)
    return _backward(asked, made, gradient, sums), gpu_sums.of_rows(sums, torch.float32)


def _backward(
    asked: Asked, made: Sequence[Tensor], gradient: Tensor, sums: Tensor | None
) -> Tensor:
    from bertsmith.model import flash_kernels, flash_short_kernels

    context, log_sums = made
    grad_qkv = asked.stream.room_for_rows(asked.qkv.shape[1], asked.qkv)  # (T, 3H)
    if short := asked.of_short(SHORT_TILE_BACK):
        kept = (context, log_sums, gradient, grad_qkv, sums)
        asked.launch(flash_short_kernels.attention_backward, short, *kept)
        return grad_qkv
    inner = torch.empty_like(log_sums)  # (A, T), the first of the two makes it
    kept = (log_sums, gradient, inner, grad_qkv, sums)
    asked.launch(flash_kernels.attention_backward_of_queries, asked.of_tiles, context, *kept)
    asked.launch(flash_kernels.attention_backward_of_keys, asked.of_tiles, *kept)
    return grad_qkv


class Plan(NamedTuple):
    """How kernels are built and launched."""

    constants: dict[str, int | str]
    options: dict[str, int]
    grid: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What all kernels are told alike: the arguments of `attend`."""

    qkv: Tensor
    words: Tensor | None
    stream: Stream
    rules: AttentionRules

    @cached_property
    def of_tiles(self) -> Plan:
        """A program for each sequence, tile of the longest, and head."""
        head_size = _head_size(self.qkv, self.rules)
        constants = kernel_constants(self.qkv.dtype, head_size, self.rules, self._probability)
        num_tiles = -(-self.stream.longest // int(constants["TILE"]))
        grid = len(self.stream.first_rows), num_tiles, self.rules.num_heads
        return Plan(constants, LAUNCH_OPTIONS, grid)

    def of_short(self, tile: int) -> Plan | None:
        """A program for each sequence and head; None where it does not hold all keys.

        `tile`: queries at a time.
        """
        tiled = self.of_tiles.constants
        constants = short_constants(self.qkv.dtype, tiled, self.stream.longest, tile)
        if constants is None:
            return None
        num_sequences, _, num_heads = self.of_tiles.grid
        return Plan(constants, SHORT_OPTIONS, (num_sequences, 1, num_heads))

    @property
    def _probability(self) -> float:
        return 0.0 if self.words is None else self.rules.probability

    def launch(self, kernel: Any, plan: Plan, *tensors: Tensor | None) -> None:
        """Runs a kernel, which is told these tensors too."""
        arguments = (
            self.qkv,
            self.words,
            self.stream.first_rows,
            self.stream.last_rows,
            *tensors,
            len(self.qkv),
            1.0 / math.sqrt(_head_size(self.qkv, self.rules)),
            1.0 / (1.0 - self._probability),
        )
        gpu_kernels.launch(kernel, plan.grid, arguments, plan.constants, plan.options)


def kernel_constants(
    dtype: torch.dtype, head_size: int, rules: AttentionRules, probability: float
) -> dict[str, int | str]:
    """What a kernel is built for: another kernel for each."""
    span = max(_FEWEST_COLUMNS, 1 << (head_size - 1).bit_length())
    is_rounded = dtype == torch.float32 and torch.backends.cuda.matmul.fp32_precision == "tf32"
    return {
        "HEADS": rules.num_heads,
        "HEAD": head_size,
        "SPAN": span,
        "DIRECTION": DIRECTION_NUMBERS[rules.direction],
        "BAR": int(probability * 2**31),
        "TILE": 64 if dtype != torch.float32 and span <= 64 else 32,
        "PRECISION": "tf32" if is_rounded else "ieee",
    }


def short_constants(
    dtype: torch.dtype, constants: Mapping[str, int | str], longest: int, tile: int
) -> dict[str, int | str] | None:
    """The same of kernels that hold all keys; None where registers do not hold so many."""
    if dtype == torch.float32 or int(constants["SPAN"]) > 64 or longest > SHORT_KEYS[-1]:
        return None
    keys = next(each for each in SHORT_KEYS if longest <= each)
    return {**constants, "TILE": tile, "KEYS": keys}


def _head_size(qkv: Tensor, rules: AttentionRules) -> int:
    return qkv.shape[1] // 3 // rules.num_heads
