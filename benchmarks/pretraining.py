"""Pre-training steps a second, beside `transformers`: its default and its best.

    python -m benchmarks.pretraining --size mini --size base
    python -m benchmarks.pretraining --size base --isa AVX2
    python -m benchmarks.pretraining --size mini --length 512 --corpus CORPUS
    python -m benchmarks.pretraining --size large --length 512 --device cuda

One step is forward, backward, clipping and optimizer, dropout 0.1, masked LM and next sentence, on
full sequences of drawn tokens: 4,096 tokens a step on a CPU (32 sequences of 128), 65,536 on a GPU,
half of that for LARGE. All systems start from the same weights and take the same batches in turn
(A B C A B C ...), each in a process of its own, which waits while the others work: each has its
memory as it comes to a user, and what one does to it the others do not feel. Batches are drawn
before the time is taken; a turn is one step, on a GPU ten. Reported: median real tokens a second,
the ratio to each peer, the fraction of the best matrix rate between the rounds, the most memory of
each, and the losses. From BASE on, and on a GPU, the variants stay out, unless they are named: with
them all hold 30 GB together. A system that fails, or takes longer than --limit for a turn, is left
out and named in the row.

`--corpus` takes sequences as they lie in real documents, many of them shorter than --length, to
which peers pad them; a run without it has the full ones. `--isa AVX2` keeps every system to an
older CPU's instructions: no bf16, no AVX-512.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.batches import Shape, over_vocabulary
from benchmarks.machine import (
    OLDER_CPUS,
    append_row,
    device_facts,
    imitate,
    matrix_rate,
    require_device,
    versions,
)
from benchmarks.processes import Worker, take_turns
from benchmarks.systems import SYSTEMS, VARIANTS
from benchmarks.turns import WARM_UP, Trial, Turn, figures, stepper
from bertsmith.environment import prepare_environment
from bertsmith.model.config import SIZES
from bertsmith.train.device import choose_device, choose_precision


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How much a type of device is given at a time."""

    step_tokens: int
    """What fills it, and two systems have memory for."""
    large_step_tokens: int
    """The same, of LARGE."""
    steps_a_turn: int


BUDGETS = {
    "cpu": Budget(step_tokens=4096, large_step_tokens=4096, steps_a_turn=1),
    "cuda": Budget(step_tokens=65_536, large_step_tokens=32_768, steps_a_turn=10),
}
GPU_SYSTEMS = ("bertsmith", "transformers best")


def main() -> None:
    """Measures every size asked for and appends one row each."""
    options = _options()
    imitate(options.isa)
    prepare_environment()  # for every system, as `bertsmith` sets it
    for size in options.size or ["mini", "base"]:
        row = measure(size, options)
        show(row)
        if row["tokens_per_second"]:
            append_row("pretraining", row)


def measure(size: str, options: argparse.Namespace) -> dict[str, Any]:
    """One side-by-side run of one size."""
    device = choose_device(options.device)
    budget = BUDGETS[device.type]
    tokens = budget.large_step_tokens if size == "large" else budget.step_tokens
    shape = Shape(
        num_sequences=options.batch or max(1, tokens // options.length),
        length=options.length,
        corpus=options.corpus,
    )
    config = over_vocabulary(SIZES[size], options.corpus)
    count = options.steps or budget.steps_a_turn
    trials = [
        Trial(system=name, config=config, shape=shape, device=device)
        for name in options.system or fitting(size, device)
    ]
    precision = choose_precision("auto", device)
    rates: list[float] = []
    taken, left_out = take_turns(
        {trial.system: Worker.begin(trial.system, stepper, trial) for trial in trials},
        [Turn(first=at * count, count=count) for at in range(options.rounds + WARM_UP)],
        before_each=lambda: rates.append(matrix_rate(precision, rounds=3, device=device)),
        limit=options.limit,
    )
    return {
        "size": size,
        "length": shape.length,
        "batch": shape.num_sequences,
        "steps_a_turn": count,
        "rounds": options.rounds,
        "corpus": shape.corpus.resolve().name if shape.corpus else None,
        **device_facts(device, options.isa),
        "precision": precision,
        "versions": versions(["transformers"]),
        "matrix_flops_per_second": max(rates),
        **figures(taken, config, max(rates)),
        "left_out": left_out,
    }


def fitting(size: str, device: torch.device) -> list[str]:
    """The systems that are measured where none is named."""
    if device.type == "cuda":
        return list(GPU_SYSTEMS)
    is_large = SIZES[size].hidden_size >= SIZES["base"].hidden_size
    return [name for name in SYSTEMS if not (is_large and name in VARIANTS)]


def show(row: dict[str, Any]) -> None:
    """Prints a row as a table."""
    speed = row["tokens_per_second"]
    print(
        f"\n{row['size']}, {row['batch']} x {row['length']}, matrix rate "
        f"{row['matrix_flops_per_second'] / 1e12:.2f} TFLOP/s {row['precision']}"
    )
    for name, rate in speed.items():
        losses = row["losses"][name]
        print(
            f"{name:31s} {rate:9,.0f} tokens/s {next(iter(speed.values())) / rate:6.2f} "
            f"{row['fraction_of_matrix_rate'][name]:6.1%} "
            f"first turn {row['first_step_seconds'][name]:5.1f} s "
            f"{row['peak_bytes'][name] / 1e9:5.1f} GB losses {losses[0]:.4f} {losses[-1]:.4f}"
        )
    for name, reason in row["left_out"].items():
        print(f"left out: {name}: {reason}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, help="sequences a step; default: by device and length")
    parser.add_argument("--steps", type=int, help="of a turn; default: 1, on a GPU 10")
    parser.add_argument("--corpus", type=Path, help="real sequences in place of drawn, full ones")
    parser.add_argument("--device", default="cpu", choices=sorted(BUDGETS))
    parser.add_argument("--isa", choices=sorted(OLDER_CPUS), help="imitate an older CPU")
    parser.add_argument("--limit", type=float, help="seconds that a system may take for a turn")
    options = parser.parse_args()
    if options.isa and options.device != "cpu":
        parser.error("--isa is of CPUs; leave --device out")
    require_device(parser, options.device)
    return options


if __name__ == "__main__":
    main()
