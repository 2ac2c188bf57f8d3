"""What a training step of ours consists of, in milliseconds and shares, beside the least it needs.

    python -m benchmarks.step_parts --size mini --size base
    python -m benchmarks.step_parts --size mini --corpus CORPUS --length 512

Pre-training steps of 4,096 tokens (32 sequences of 128), and fine-tuning steps of 32 drawn examples
of 6 to 128 tokens (40 in the mean), on a CPU, dropout 0.1, in bf16 where the hardware multiplies
it, each in a process of its own. torch's profiler names the operators, and the table in `parts.py`
says which part of the step each belongs to; layers in one call, and the loss, have a clock of their
own (`timed.h`). The parts add up to the profiled step. Shown is the step of median time. Beside it
stand as many tokens without the profiler, which keeps that clock (a median), and the floor: every
matrix product of torch's and of what has the clock, at the matrix rate measured in the same run.
Uncounted are other functions in C++: the pooler, the recurrence, attention beside layers by
operators, the loss in float16.

With `--corpus` the pre-training step draws its batch, which a run does ahead of time, in another
thread; without it, full sequences are drawn before the step begins.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch.profiler import profile, record_function

from benchmarks.batches import Shape, batches_of, over_vocabulary
from benchmarks.finetuning.drawn import HEAD, drawn_items
from benchmarks.finetuning.speed_systems import BATCH
from benchmarks.finetuning.speed_systems import ours as fine_tuned
from benchmarks.machine import CPU, append_row, device_facts, matrix_rate
from benchmarks.parts import HEAD as LOSS
from benchmarks.parts import LAYERS, Part, line, parts_of, ranges
from benchmarks.processes import apart
from benchmarks.settled import Taken, settled
from benchmarks.systems import Setup, ours
from benchmarks.timed import opened, since, stages_of, timed
from bertsmith.environment import prepare_environment
from bertsmith.model import cpu_training_layer, cpu_whole_loss
from bertsmith.model.bert import Bert
from bertsmith.model.config import SIZES, BertConfig
from bertsmith.model.heads import TaskHead
from bertsmith.model.init import initialise
from bertsmith.model.objectives import PretrainModel
from bertsmith.model.task_model import TaskModel
from bertsmith.train.device import choose_precision

Kind = Literal["pre-training", "fine-tuning"]
STEP_TOKENS = 4096
ITEMS = 2048
WARM_UP = 6
"""Steps that are not timed: compilation, and the sizes that texts of other lengths have."""
_STEP = "the step"
OPENED = {
    LAYERS: (cpu_training_layer.SOURCE, cpu_training_layer.FLOAT32_SOURCE),
    LOSS: (cpu_whole_loss.SOURCE,),
}
"""Parts of which functions in C++ tell their stages: a step calls those of one source."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One kind of step."""

    kind: Kind
    config: BertConfig
    shape: Shape
    """Of pre-training."""
    rounds: int


@dataclass(frozen=True, kw_only=True)
class Profiled:
    """What its process found."""

    parts: Mapping[str, Part]
    """Of the step of median time, under the profiler."""
    tokens: int
    """Of that step."""
    seconds: float
    """Of as many tokens without the profiler: the median of steps, by the token."""
    most_faults: int
    """Pages that one of the latter met anew, at most."""
    matrix_flops_per_second: float


def main() -> None:
    """Profiles every size and kind asked for; prints a table and appends a row each."""
    options = _options()
    prepare_environment()  # as `bertsmith` sets it
    shape = Shape(
        num_sequences=options.batch or max(1, STEP_TOKENS // options.length),
        length=options.length,
        corpus=options.corpus,
    )
    for size, kind in itertools.product(options.size or ["mini", "base"], options.kind or MAKERS):
        corpus = options.corpus if kind == "pre-training" else None
        config = over_vocabulary(SIZES[size], corpus)
        trial = Trial(kind=kind, config=config, shape=shape, rounds=options.rounds)
        row = row_of(size, trial, apart(profiled, trial))
        print(f"\n{table(row)}", flush=True)
        append_row("step_parts", row)


def profiled(trial: Trial) -> Profiled:
    """Takes steps without the profiler, until memory has settled, and one with it, in turn."""
    plain: list[Taken] = []
    steps: list[tuple[float, int, dict[str, Part]]] = []
    rates: list[float] = []
    clocks = [(part, timed(source)) for part, sources in OPENED.items() for source in sources]
    with ranges():
        ready = map(MAKERS[trial.kind](trial), itertools.count())
        for _ in range(WARM_UP):
            next(ready)()
        for _ in range(trial.rounds):
            rates.append(matrix_rate(rounds=3))
            plain.append(settled(ready))
            step = next(ready)
            before = [stages_of(clock) for _, clock in clocks]
            with profile(record_shapes=True) as profiler, record_function(_STEP):
                tokens = step()
            [event] = [each for each in profiler.events() or [] if each.name == _STEP]
            parts = parts_of(event)
            for (part, clock), was in zip(clocks, before, strict=True):
                parts = opened(parts, part, since(was, stages_of(clock)))
            steps.append((sum(part.seconds for part in parts.values()), tokens, parts))
    middle = sorted(steps, key=lambda step: step[0])[len(steps) // 2]
    return Profiled(
        parts=middle[2],
        tokens=middle[1],
        seconds=middle[1] * statistics.median(each.seconds / each.tokens for each in plain),
        most_faults=max(each.faults for each in plain),
        matrix_flops_per_second=max(rates),
    )


Step = Callable[[], int]
"""Takes one step; gives its tokens."""


def pre_training(trial: Trial) -> Callable[[int], Step]:
    """A number -> the step of that number; without a corpus its batch is drawn before."""
    model = PretrainModel(trial.config, ("masked_lm", "next_sentence"))
    initialise(model, std=trial.config.initializer_range, seed=0)
    take = ours(Setup(config=trial.config, weights=model.state_dict()))
    del model
    draw = batches_of(trial.config, trial.shape)

    def ready(number: int) -> Step:
        drawn = None if trial.shape.corpus else draw(number)

        def step() -> int:
            batch = drawn or draw(number)
            take(batch, number)
            return batch.num_tokens

        return step

    return ready


def fine_tuning(trial: Trial) -> Callable[[int], Step]:
    """A number, from 0 on and none left out -> the step of that number."""
    model = TaskModel(Bert(trial.config), TaskHead(trial.config, HEAD))
    initialise(model, std=trial.config.initializer_range, seed=0)
    labelled = drawn_items(ITEMS, trial.config.vocab_size)
    steps = fine_tuned(model, labelled, CPU, ITEMS // BATCH)
    return lambda _: lambda: next(steps).tokens


MAKERS: dict[Kind, Callable[[Trial], Callable[[int], Step]]] = {
    "pre-training": pre_training,
    "fine-tuning": fine_tuning,
}


def row_of(size: str, trial: Trial, found: Profiled) -> dict[str, Any]:
    """What is appended."""
    is_pretraining = trial.kind == "pre-training"
    corpus = trial.shape.corpus if is_pretraining else None
    flops = sum(part.flops for part in found.parts.values())
    return {
        "size": size,
        "kind": trial.kind,
        "batch": trial.shape.num_sequences if is_pretraining else BATCH,
        "length": trial.shape.length if is_pretraining else None,
        "corpus": corpus.resolve().name if corpus else None,
        "tokens": found.tokens,
        "rounds": trial.rounds,
        **device_facts(CPU),
        "precision": choose_precision("auto", CPU),
        "matrix_flops_per_second": found.matrix_flops_per_second,
        "plain_seconds": found.seconds,
        "plain_faults": found.most_faults,
        "profiled_seconds": sum(part.seconds for part in found.parts.values()),
        "floor_seconds": flops / found.matrix_flops_per_second,
        "parts": {name: asdict(part) for name, part in found.parts.items()},
    }


def table(row: Mapping[str, Any]) -> str:
    """The row as Markdown."""
    total, rate = row["profiled_seconds"], row["matrix_flops_per_second"]
    lines = [
        f"{row['size']}, {row['kind']}, {row['tokens']:,} tokens in {row['batch']} sequences, "
        f"{row['precision']}; matrix rate {rate / 1e12:.2f} TFLOP/s",
        "",
        "| part | milliseconds | share | GFLOP of products | milliseconds at the matrix rate |",
        "|---|---|---|---|---|",
    ]
    for name, part in row["parts"].items():
        if part["seconds"] or part["flops"]:
            lines.append(line(name, part["seconds"], total, part["flops"], rate))
    flops = sum(part["flops"] for part in row["parts"].values())
    lines.append(line("**all**", total, total, flops, rate))
    plain, floor = row["plain_seconds"], row["floor_seconds"]
    return "\n".join(
        [
            *lines,
            "",
            f"Without the profiler {1e3 * plain:.1f} ms; its products at the matrix rate are "
            f"{floor / plain:.0%} of that.",
        ]
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", action="append", choices=sorted(SIZES))
    parser.add_argument("--kind", action="append", choices=list(MAKERS))
    parser.add_argument("--corpus", type=Path, help="pre-training draws its batches from it")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch", type=int, help="sequences; default: 4,096 tokens by length")
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
