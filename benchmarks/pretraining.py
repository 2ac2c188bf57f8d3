"""Pre-training steps a second, beside `transformers`: its default and its best.

    python -m benchmarks.pretraining --size mini --size base

One step is forward, backward, clipping and optimizer on 32 sequences of 128 tokens, dropout 0.1,
masked LM and next sentence. All systems start from the same weights and take the same batches in
turn (A B C A B C ...), each in a process of its own, which waits while the others work: each has
its memory as it comes to a user, and what one does to it the others do not feel. Reported: median
real tokens a second, the ratio to each peer, the fraction of the best matrix rate between the
rounds, the most memory of each, and the losses. From BASE on the two variants stay out, unless they
are named: with them all hold 30 GB together.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import time
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import numpy as np
import torch

from benchmarks.machine import append_row, matrix_rate
from benchmarks.process_memory import own_peak_bytes
from benchmarks.systems import SYSTEMS, VARIANTS
from bertsmith.batch import PackedBatch, PretrainBatch
from bertsmith.cli import ENVIRONMENT
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.randomness import integers, permutation
from bertsmith.train.device import choose_precision

PREDICTED_SHARE = 0.15
WARM_UP = 2
"""Steps that are not timed: compilation, first pages."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Asks a system for one step."""

    number: int
    length: int
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a system says of its step."""

    seconds: float
    loss: float
    peak_bytes: int
    """The most that its process ever held resident."""


def main() -> None:
    """Measures every size asked for and appends one row each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, default=32)
    options = parser.parse_args()
    for name, value in ENVIRONMENT.items():  # for every system, as `bertsmith` sets it
        os.environ.setdefault(name, value)
    for size in options.size or ["mini", "base"]:
        is_large = SIZES[size].hidden_size >= SIZES["base"].hidden_size
        fitting = [name for name in SYSTEMS if not (is_large and name in VARIANTS)]
        measure(size, options.system or fitting, options)


def measure(size: str, names: list[str], options: argparse.Namespace) -> None:
    """One side-by-side run of one size."""
    rounds, length, batch_size = options.rounds, options.length, options.batch
    precision = choose_precision("auto", torch.device("cpu"))
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    systems = {name: begin(size, name) for name in names}
    steps: dict[str, list[Taken]] = {name: [] for name in systems}
    rates = []
    for number in range(rounds + WARM_UP):
        rates.append(matrix_rate(dtype, rounds=3))
        for name, pipe in systems.items():
            order = Order(number=number, length=length, batch_size=batch_size)
            steps[name].append(ask(pipe, order, name))
    for pipe in systems.values():
        pipe.close()

    tokens = length * batch_size
    flops = training_flops(SIZES[size], length) * tokens
    ceiling = max(rates)
    speed = {
        name: tokens / statistics.median(step.seconds for step in taken[WARM_UP:])
        for name, taken in steps.items()
    }
    print(
        f"\n{size}, {batch_size} x {length}, matrix rate {ceiling / 1e12:.2f} TFLOP/s {precision}"
    )
    for name, rate in speed.items():
        first, last = steps[name][0], steps[name][-1]
        print(
            f"{name:31s} {rate:9,.0f} tokens/s {speed[names[0]] / rate:6.2f} "
            f"{rate / tokens * flops / ceiling:6.1%} first step {first.seconds:5.1f} s "
            f"{last.peak_bytes / 1e9:5.1f} GB losses {first.loss:.4f} {last.loss:.4f}"
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
            "first_step_seconds": {name: taken[0].seconds for name, taken in steps.items()},
            "peak_bytes": {name: taken[-1].peak_bytes for name, taken in steps.items()},
            "losses": {name: [step.loss for step in taken] for name, taken in steps.items()},
        },
    )


def begin(size: str, name: str) -> Connection:
    """Starts a process that takes the system's steps when told to; it ends with its pipe."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    context.Process(target=serve, args=(theirs, size, name), daemon=True).start()
    theirs.close()
    return ours


def ask(pipe: Connection, order: Order, name: str) -> Taken:
    """Has one step taken. Raises RuntimeError when the system's process has ended."""
    try:
        pipe.send(order)
        taken: Taken = pipe.recv()
    except (EOFError, OSError) as error:
        raise RuntimeError(
            f"the process of {name!r} ended at step {order.number}: if no error of its own stands "
            "above, the memory did not suffice for all; name fewer with --system"
        ) from error
    return taken


def serve(pipe: Connection, size: str, name: str) -> None:
    """Takes each step that is ordered, and says what it took."""
    config = SIZES[size]
    model = PretrainModel(config, ("masked_lm", "next_sentence"))
    initialise(model, std=config.initializer_range, seed=0)
    step = SYSTEMS[name](config, model.state_dict())
    del model
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        batch = synthetic(config, order.length, order.batch_size, order.number)
        began = time.perf_counter()
        loss = step(batch, order.number)
        seconds = time.perf_counter() - began
        pipe.send(Taken(seconds=seconds, loss=loss, peak_bytes=own_peak_bytes()))


def training_flops(config: BertConfig, length: int) -> float:
    """Operations a token needs, forward and backward: three times the forward multiplications."""
    hidden, inner = config.hidden_size, config.intermediate_size
    layer = 8 * hidden**2 + 4 * hidden * inner + 4 * length * hidden
    head = PREDICTED_SHARE * (2 * hidden**2 + 2 * hidden * config.vocab_size)
    # Rows that no head reads leave the last layer after its attention.
    unread = (1 - PREDICTED_SHARE - 1 / length) * (2 * hidden**2 + 4 * hidden * inner)
    return 3 * (config.num_hidden_layers * layer - unread + head)


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
