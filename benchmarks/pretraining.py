"""Pre-training steps a second, beside `transformers`: its default and its best.

    python -m benchmarks.pretraining --size mini --size base

One step is forward, backward, clipping and optimizer on 32 sequences of 128 tokens, dropout 0.1,
masked LM and next sentence. All systems start from the same weights, take the same batches in turn
(A B C A B C ...), and live in one process, which keeps freed memory for all of them as `bertsmith
pretrain` does. Reported: median real tokens a second, the ratio to each peer, the fraction of the
best matrix rate between the rounds, and the losses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from benchmarks.machine import append_row, matrix_rate
from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.cli import ENVIRONMENT
from bertsmith.files import keep_freed_memory
from bertsmith.fusion import unfused
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.randomness import integers, permutation
from bertsmith.train.config import OptimizerConfig
from bertsmith.train.device import cast_, choose_precision
from bertsmith.train.optimizer import Optimizer

PREDICTED_SHARE = 0.15
RATE = 1e-4

Step = Callable[[PretrainBatch, int], float]


def main() -> None:
    """Measures every size asked for and appends one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    for name, value in ENVIRONMENT.items():  # for every system, as `bertsmith` sets it
        os.environ.setdefault(name, value)
    keep_freed_memory()
    for size in options.size or ["mini", "base"]:
        measure(size, options.rounds, options.length, options.batch)


def measure(size: str, rounds: int, length: int, batch_size: int) -> None:
    """One side-by-side run of one size."""
    config = SIZES[size]
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=config.initializer_range, seed=0)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    precision = choose_precision("auto", torch.device("cpu"))
    systems: dict[str, Step] = {
        "bertsmith": ours(config, weights),
        "bertsmith without a compiler": without_compiler(ours(config, weights)),
        "transformers default": transformers_default(config, weights),
        "transformers best": transformers_best(config, weights),
    }
    batches = [synthetic(config, length, batch_size, number) for number in range(rounds + 2)]
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    losses: dict[str, list[float]] = {name: [] for name in systems}
    started: dict[str, float] = {}
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    rates = []
    for number, batch in enumerate(batches):
        rates.append(matrix_rate(dtype, rounds=3))
        for name, step in systems.items():
            began = time.perf_counter()
            losses[name].append(step(batch, number))
            seconds[name].append(time.perf_counter() - began)
            started.setdefault(name, seconds[name][0])

    tokens = length * batch_size
    flops = training_flops(config, length) * tokens
    ceiling = max(rates)
    speed = {name: tokens / statistics.median(each[2:]) for name, each in seconds.items()}
    print(
        f"\n{size}, {batch_size} x {length}, matrix rate {ceiling / 1e12:.2f} TFLOP/s {precision}"
    )
    for name, rate in speed.items():
        print(
            f"{name:30s} {rate:9,.0f} tokens/s {speed['bertsmith'] / rate:6.2f} "
            f"{rate / tokens * flops / ceiling:6.1%} first step {started[name]:5.1f} s "
            f"losses {losses[name][0]:.4f} {losses[name][-1]:.4f}"
        )
    append_row(
        "pretraining",
        {
            "size": size,
            "length": length,
            "batch": batch_size,
            "rounds": rounds,
            "precision": precision,
            "matrix_flops_per_second": ceiling,
            "tokens_per_second": speed,
            "fraction_of_matrix_rate": {n: r / tokens * flops / ceiling for n, r in speed.items()},
            "first_step_seconds": started,
            "losses": losses,
        },
    )


def training_flops(config: BertConfig, length: int) -> float:
    """Operations a token needs, forward and backward: three times the forward multiplications."""
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = 8 * hidden**2 + 4 * hidden * inner + 4 * length * hidden
    head = PREDICTED_SHARE * (2 * hidden**2 + 2 * hidden * config.vocab_size)
    # Rows that no head reads leave the last layer after its attention.
    unread = (1 - PREDICTED_SHARE - 1 / length) * (2 * hidden**2 + 4 * hidden * inner)
    return 3 * (config.num_hidden_layers * layer - unread + head)


def ours(config: BertConfig, weights: dict[str, torch.Tensor]) -> Step:
    """A step as `bertsmith pretrain` takes it on this machine."""
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    model.load_state_dict(weights)
    cast_(model, choose_precision("auto", torch.device("cpu")))
    optimizer = Optimizer(model.named_parameters(), OptimizerConfig(learning_rate=RATE))

    def step(batch: PretrainBatch, number: int) -> float:
        losses = model(batch, (0, number))
        losses.loss.backward()
        optimizer.step(RATE)
        optimizer.zero_grad()
        return float(losses.loss.detach())

    return step


def without_compiler(step: Step) -> Step:
    """The same step with the plain functions in place of fused kernels."""

    def plain(batch: PretrainBatch, number: int) -> float:
        with unfused():
            return step(batch, number)

    return plain


def peer(config: BertConfig, weights: dict[str, torch.Tensor]) -> torch.nn.Module:
    """`transformers`' BertForPreTraining with our weights, its own default attention."""
    import transformers

    from bertsmith.checkpoints.config_json import config_to_json
    from bertsmith.checkpoints.names import to_hugging_face

    content = config_to_json(config, ("masked_lm", "next_sentence"))
    model = transformers.BertForPreTraining(transformers.BertConfig(**content))
    model.load_state_dict(to_hugging_face(weights), strict=False)
    return model.train()


def transformers_default(config: BertConfig, weights: dict[str, torch.Tensor]) -> Step:
    """float32, eager, torch's AdamW as it comes."""
    model = peer(config, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    return peer_step(model, model, optimizer, is_autocast=False)


def transformers_best(config: BertConfig, weights: dict[str, torch.Tensor]) -> Step:
    """Scaled-dot-product attention, torch.compile, fused AdamW; bf16 autocast where that is faster.

    Without bf16 instructions autocast would slow it down several times: float32 is its best there.
    """
    model = peer(config, weights)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    autocast = choose_precision("auto", torch.device("cpu")) == "bf16"
    return peer_step(model, torch.compile(model), optimizer, is_autocast=autocast)


def peer_step(
    model: torch.nn.Module,
    callable_model: Callable[..., object],
    optimizer: torch.optim.Optimizer,
    is_autocast: bool,
) -> Step:
    """A step of `transformers` on the padded form of our batch."""

    def step(batch: PretrainBatch, number: int) -> float:
        arrays = batch.packed.to_padded()
        input_ids, mask, types = (torch.from_numpy(array) for array in arrays)
        rows = torch.full((batch.packed.num_tokens,), -100)
        rows[torch.from_numpy(batch.target_rows)] = torch.from_numpy(batch.target_ids).long()
        labels = torch.full_like(input_ids, -100)
        labels[mask.bool()] = rows
        assert batch.next_labels is not None
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=is_autocast):
            output = callable_model(
                input_ids=input_ids,
                attention_mask=mask,
                token_type_ids=types,
                labels=labels,
                next_sentence_label=torch.from_numpy(batch.next_labels).long(),
            )
        output.loss.backward()  # type: ignore[attr-defined]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(output.loss.detach())  # type: ignore[attr-defined]

    return step


def synthetic(config: BertConfig, length: int, batch_size: int, number: int) -> PretrainBatch:
    """Full sequences of tokens drawn with the squares' skew of text: speed needs no meaning."""
    total = length * batch_size
    places = np.arange(total)
    vocabulary = config.vocab_size - 1000
    skewed = integers(vocabulary, 1, number, places) * integers(vocabulary, 2, number, places)
    num_targets = batch_size * round(PREDICTED_SHARE * length)
    token_ids = (1000 + skewed // vocabulary).astype(np.int32)
    target_rows = np.sort(permutation(total, 3, number)[:num_targets])
    packed = PackedBatch(
        token_ids=token_ids,
        segment_ids=(places % length >= length // 2).astype(np.int32),
        lengths=np.full(batch_size, length, dtype=np.int32),
        keys=np.arange(batch_size),
    )
    masked = token_ids.copy()
    masked[target_rows] = 103
    return PretrainBatch(
        packed=replace(packed, token_ids=masked),
        target_rows=target_rows,
        target_ids=token_ids[target_rows],
        next_labels=integers(2, 4, number, np.arange(batch_size)).astype(np.int8),
        step_targets=num_targets,
        step_sequences=batch_size,
    )


if __name__ == "__main__":
    main()
