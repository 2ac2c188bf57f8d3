"""Where a pre-training step on a GPU goes: its kernels, the longest first, by torch's profiler.

    python -m benchmarks.gpu_step --size base --length 128
    python -m benchmarks.gpu_step --size large --system "transformers best" --most 20

Steps are those of `benchmarks.pretraining`, of one system. Printed: the time of a step, without the
profiler; milliseconds of a step and calls of each kernel, and what is left of them; and what a step
of one sequence takes, which waits for Python alone. No row is kept: a profile is for looking at.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from benchmarks.batches import Shape
from benchmarks.machine import require_device
from benchmarks.pretraining import BUDGETS
from benchmarks.systems import SYSTEMS
from benchmarks.turns import WARM_UP, Taken, Trial, Turn, stepper
from bertsmith.model.config import SIZES
from bertsmith.train.device import choose_device

STEPS = 3
"""That the profiler sees, and that are timed without it."""
_NAME = 100
"""Characters of a kernel's name that are shown."""


class Kernel(NamedTuple):
    """All calls of one, in some steps."""

    name: str
    count: int
    microseconds: float


def main() -> None:
    """Prints the profile of one system's step, and what a small step takes."""
    options = _options()
    device = choose_device("cuda")
    budget = BUDGETS["cuda"]
    tokens = budget.large_step_tokens if options.size == "large" else budget.step_tokens
    for count in (max(1, tokens // options.length), 1):
        shape = Shape(num_sequences=count, length=options.length)
        trial = Trial(system=options.system, config=SIZES[options.size], shape=shape, device=device)
        take = stepper(trial)
        for turn in range(WARM_UP):
            take(Turn(first=turn, count=1))
        seconds = take(Turn(first=WARM_UP, count=STEPS)).seconds / STEPS
        print(f"{count} x {options.length}: {1e3 * seconds:.2f} ms a step")
        if count > 1:
            print("\n".join(lines(kernels(take), options.most)), flush=True)
        del take


def kernels(take: Callable[[Turn], Taken]) -> list[Kernel]:
    """Those of some steps, as the profiler saw them."""
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        take(Turn(first=WARM_UP + STEPS, count=STEPS))
    return [
        Kernel(event.key, event.count, event.self_device_time_total)
        for event in seen.key_averages()
        if event.device_type == torch.autograd.DeviceType.CUDA
    ]


def lines(found: Iterable[Kernel], most: int) -> list[str]:
    """A line for each of the longest, and one for the others, of one step."""
    ordered = sorted(found, key=lambda each: -each.microseconds)
    total = sum(each.microseconds for each in ordered)
    told = [
        f"{each.microseconds / STEPS / 1e3:9.3f} ms {each.count / STEPS:6.0f} x {each.name[:_NAME]}"
        for each in ordered[:most]
    ]
    rest = sum(each.microseconds for each in ordered[most:])
    return [
        *told,
        f"{rest / STEPS / 1e3:9.3f} ms of {len(ordered[most:])} others",
        f"{total / STEPS / 1e3:9.3f} ms of all",
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", default="base", choices=sorted(SIZES))
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--system", default="bertsmith", choices=list(SYSTEMS))
    parser.add_argument("--most", type=int, default=40, help="kernels that are shown")
    options = parser.parse_args()
    require_device(parser, "cuda")
    return options


if __name__ == "__main__":
    main()
