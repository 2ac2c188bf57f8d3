"""Fine-tuning beside other work: examples a second while other processes keep the cores busy.

    python -m benchmarks.busy --size mini --others 2 --rounds 7

Threads that meet after every operator wait for the slowest of them, and beside other work that is
one that does not run. How long they spin before they sleep decides what that costs: as libgomp
does by itself, and as `bertsmith` sets it (`bertsmith/environment.py`). Each system runs both ways,
alone and beside others. Whether two threads come to share a core differs from process to process,
so in every round each system begins anew, and takes a turn of its steps after one that warms it up.
Reported: the examples a second of every round, their median and the smallest. The batches are those
of `benchmarks.finetuning.speed --task drawn`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any
from unittest import mock

from benchmarks.finetuning import drawn
from benchmarks.finetuning.speed import Trial, stepper
from benchmarks.finetuning.speed_systems import BATCH, SYSTEMS
from benchmarks.machine import CPU, append_row, device_facts, matrix_rate, versions
from benchmarks.processes import Worker
from bertsmith.environment import SPINNING, prepare_environment
from bertsmith.model.config import SIZES
from bertsmith.train.device import choose_precision

WAITS = {"as bertsmith sets it": SPINNING, "as libgomp does": {}}
"""What of the environment decides how long threads spin."""
OTHERS = """
import os, sys, threading
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
while True: pass
"""
"""What the others do: they compute, until whoever began them has ended."""
BY_DEFAULT = ("bertsmith", "transformers, best")


def main() -> None:
    """Measures a size, and appends a row."""
    options = _options()
    prepare_environment()
    for name in (*SPINNING, "OMP_WAIT_POLICY"):
        os.environ.pop(name, None)
    row = measure(options)
    show(row)
    append_row("busy", row)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Every system both ways, alone and beside others, in turn."""
    precision = choose_precision("auto", CPU)
    found: dict[str, dict[str, list[float]]] = {"alone": {}, "beside others": {}}
    rate = matrix_rate(precision)
    for _ in range(options.rounds):
        for where, number in zip(found, (0, options.others), strict=True):
            with busy(number):
                for system in options.system or BY_DEFAULT:
                    for wait, variables in WAITS.items():
                        speed = _one_turn(system, variables, options)
                        found[where].setdefault(f"{system}, {wait}", []).append(speed)
    return {
        "size": options.size,
        "batch": BATCH,
        "steps_a_turn": options.steps,
        "rounds": options.rounds,
        "others": options.others,
        **device_facts(CPU),
        "precision": precision,
        "versions": versions(["transformers"]),
        "matrix_flops_per_second": rate,
        "examples_per_second": found,
    }


def show(row: Mapping[str, Any]) -> None:
    """Prints a row as a table."""
    print(f"\n{row['size']}, batch {BATCH}: examples a second, median (smallest)")
    for where, speeds in row["examples_per_second"].items():
        print(f"{where}" + (f", {row['others']} of them" if where != "alone" else ""))
        for name, each in speeds.items():
            print(f"  {name:42s} {statistics.median(each):8.1f} ({min(each):.1f})")


@contextlib.contextmanager
def busy(number: int) -> Iterator[None]:
    """Has so many other processes compute meanwhile."""
    with contextlib.ExitStack() as others:
        for _ in range(number):
            other = subprocess.Popen([sys.executable, "-c", OTHERS], stdin=subprocess.PIPE)
            others.enter_context(other)  # which waits for its end
            others.callback(other.kill)
        yield


def _one_turn(system: str, variables: Mapping[str, str], options: argparse.Namespace) -> float:
    """Examples a second of a process of its own."""
    trial = Trial(
        system=system,
        size=options.size,
        task=drawn.NAME,
        data=None,
        device=CPU,
        num_batches=options.steps,
    )
    with mock.patch.dict(os.environ, variables):
        worker = Worker.begin(system, stepper, trial)
    try:
        worker.ask(options.steps)
        return options.steps * BATCH / worker.ask(options.steps).seconds
    finally:
        worker.end()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="mini", choices=sorted(SIZES))
    parser.add_argument("--system", action="append", choices=list(SYSTEMS))
    parser.add_argument("--others", type=int, default=2, help="processes beside it")
    parser.add_argument("--steps", type=int, default=20, help="of a turn")
    parser.add_argument("--rounds", type=int, default=7)
    return parser.parse_args()


if __name__ == "__main__":
    main()
