"""What layers of a model that only answers consist of, in milliseconds, beside the least they need.

    python -m benchmarks.answer_parts --size mini --size base
    python -m benchmarks.answer_parts --size base --precision int8 --length 128 --pooled

64 sequences of drawn tokens go through all layers on a CPU, in a process of their own: as long as
texts are (6 to 138 tokens, 40 in the mean) or all of one length, asked for every row, or with
`--pooled` for the first of each alone. The layers' functions in C++ have a clock (`timed.h`). Shown
are medians of rounds, and what a stage's products would take at the matrix rate of the same run:
that of the precision in which the rest computes, where weights have eight bits too. Where layers
are not one call, all is "all else".
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, get_args

import numpy as np
import torch

from benchmarks.inference.texts import mixed_lengths
from benchmarks.machine import CPU, append_row, device_facts, matrix_rate
from benchmarks.parts import line
from benchmarks.processes import apart
from benchmarks.timed import Stage, since, stages_of, timed
from bertsmith.answering import make_ready, rest_of
from bertsmith.batch import PackedBatch
from bertsmith.environment import prepare_environment
from bertsmith.model.bert import Bert
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.cpu_layer import FLOAT16_SOURCE, FLOAT32_SOURCE, INT8_SOURCE, SOURCE
from bertsmith.model.init import initialise
from bertsmith.model.stream import Stream
from bertsmith.train.config import AnswerPrecision

SEQUENCES = 64


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What goes through which layers."""

    config: BertConfig
    precision: AnswerPrecision
    lengths: Sequence[int]
    is_pooled: bool
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Clocked:
    """What its process found."""

    stages: Mapping[str, Stage]
    """Of a pass, medians."""
    seconds: float
    """Of a pass, with embeddings, a median."""
    matrix_flops_per_second: float


def main() -> None:
    """Clocks every size asked for; prints a table and appends a row each."""
    options = _options()
    prepare_environment()  # as `bertsmith` sets it
    lengths = [options.length] * SEQUENCES if options.length else mixed_lengths(SEQUENCES, 0)
    for size in options.size or ["mini", "base"]:
        trial = Trial(
            config=SIZES[size],
            precision=options.precision,
            lengths=lengths,
            is_pooled=options.pooled,
            rounds=options.rounds,
        )
        row = row_of(size, trial, apart(clocked, trial))
        print(f"\n{table(row)}", flush=True)
        append_row("answer_parts", row)


def clocked(trial: Trial) -> Clocked:
    """Takes passes, each after the matrix rate."""
    clock = timed(source_of(trial.precision))
    bert = Bert(trial.config)
    initialise(bert, std=trial.config.initializer_range, seed=0)
    make_ready(bert, trial.precision, CPU)
    stream = _drawn(trial)
    rows = stream.first_rows if trial.is_pooled else None
    rates: list[float] = []
    passes: list[tuple[float, dict[str, Stage]]] = []
    with torch.inference_mode():
        bert(stream, rows)
        for _ in range(trial.rounds):
            rates.append(matrix_rate(rest_of(trial.precision, CPU), rounds=3))
            before, began = stages_of(clock), time.perf_counter()
            bert(stream, rows)
            seconds = time.perf_counter() - began
            passes.append((seconds, since(before, stages_of(clock))))
    return Clocked(
        stages={
            name: Stage(median(told[name].seconds for _, told in passes), passes[0][1][name].flops)
            for name in passes[0][1]
        },
        seconds=median(seconds for seconds, _ in passes),
        matrix_flops_per_second=max(rates),
    )


def source_of(precision: AnswerPrecision) -> Path:
    """The functions that layers of that precision call."""
    if precision == "int8":
        return INT8_SOURCE
    sources = {"fp16": FLOAT16_SOURCE, "fp32": FLOAT32_SOURCE, "bf16": SOURCE}
    return sources[rest_of(precision, CPU)]


def row_of(size: str, trial: Trial, found: Clocked) -> dict[str, Any]:
    """What is appended."""
    return {
        "size": size,
        "sequences": len(trial.lengths),
        "tokens": sum(trial.lengths),
        "longest": max(trial.lengths),
        "is_pooled": trial.is_pooled,
        "rounds": trial.rounds,
        **device_facts(CPU),
        "precision": trial.precision,
        "rest": rest_of(trial.precision, CPU),
        "matrix_flops_per_second": found.matrix_flops_per_second,
        "seconds": found.seconds,
        "stages": {name: asdict(stage) for name, stage in found.stages.items()},
    }


def table(row: Mapping[str, Any]) -> str:
    """The row as Markdown."""
    rate, whole = row["matrix_flops_per_second"], row["seconds"]
    stages: dict[str, dict[str, float]] = row["stages"]
    told = sum(stage["seconds"] for stage in stages.values())
    flops = sum(stage["flops"] for stage in stages.values())
    lines = [
        f"{row['size']}, {row['tokens']:,} tokens in {row['sequences']} sequences, "
        f"{'pooled' if row['is_pooled'] else 'all rows'}, {row['precision']} ({row['rest']}); "
        f"matrix rate {rate / 1e12:.2f} TFLOP/s",
        "",
        "| stage | milliseconds | share | GFLOP of products | milliseconds at the matrix rate |",
        "|---|---|---|---|---|",
        *(line(name, each["seconds"], whole, each["flops"], rate) for name, each in stages.items()),
        line("all else", whole - told, whole, 0.0, rate),
        line("**all**", whole, whole, flops, rate),
    ]
    return "\n".join(lines)


def _drawn(trial: Trial) -> Stream:
    """Sequences of those lengths."""
    total = sum(trial.lengths)
    ids = np.random.default_rng(0).integers(0, trial.config.vocab_size, total)
    packed = PackedBatch(
        token_ids=ids.astype(np.int32),
        segment_ids=np.zeros(total, dtype=np.int32),
        lengths=np.array(trial.lengths, dtype=np.int32),
        keys=np.arange(len(trial.lengths)),
    )
    return Stream.of(packed)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--precision", choices=get_args(AnswerPrecision), default="auto")
    parser.add_argument("--length", type=int, help="tokens of every sequence; default: mixed")
    parser.add_argument("--pooled", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


if __name__ == "__main__":
    main()
