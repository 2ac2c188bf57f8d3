"""What each kernel of a step takes on a GPU, beside its memory traffic, and with other constants.

    python -m benchmarks.gpu_kernels
    python -m benchmarks.gpu_kernels --others --only attention --length 512

Kernels in Triton are timed one by one on the numbers of a step of BASE in bf16, 65,536 tokens,
dropout 0.1: microseconds, medians of several times, gigabytes that must be read and written at
least, and what share of the rate of a copy that is, measured beside them. With `--others` each is
timed with other tiles, warps and programs too, in the place of the constants of its module: the
first line of a kernel is as it is. One that does not fit into a multiprocessor is named. No row is
kept: this is for choosing constants. Alone a kernel meets other caches and clocks than in a step:
look at `benchmarks.gpu_step` before one is taken.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Callable, Iterator

import torch

from benchmarks.gpu_step_kernels import Kernel, kernels
from benchmarks.machine import require_device
from bertsmith.train.device import choose_device

_TIMES = 9
_COPIED_BYTES = 2**31


def main() -> None:
    """Prints every kernel's figures."""
    options = _options()
    device = choose_device("cuda")
    rate = copied_bytes_per_second(device)
    print(f"{torch.cuda.get_device_name(device)}: copies at {rate / 1e12:.2f} TB/s", flush=True)
    for kernel in kernels(options.length, device):
        if options.only is None or options.only in kernel.name:
            for line in lines(kernel, rate, seconds, has_others=options.others):
                print(line, flush=True)


def copied_bytes_per_second(device: torch.device) -> float:
    """Read and written, by a copy of two gigabytes."""
    source, target = torch.empty((2, _COPIED_BYTES), dtype=torch.uint8, device=device)
    return 2 * _COPIED_BYTES / seconds(lambda: target.copy_(source))


def lines(
    kernel: Kernel,
    rate: float,
    timed: Callable[[Callable[[], object]], float],
    *,
    has_others: bool,
) -> Iterator[str]:
    """As it is, and with the other constants; `rate`: bytes a second of a copy."""
    others = kernel.others if has_others else {}
    for name, constants in [("as it is", None), *others.items()]:
        told = f"{kernel.name:24s} {name:60s}"
        with contextlib.nullcontext() if constants is None else constants.in_place():
            try:
                took = timed(kernel.run)
            except Exception as error:  # Triton names many kinds of what does not fit
                reason = next(iter(str(error).splitlines()), type(error).__name__)
                yield f"{told} failed: {reason[:80]}"
                continue
        share = kernel.num_bytes / took / rate
        yield f"{told} {1e6 * took:7.0f} us {kernel.num_bytes / 1e9:6.2f} GB {share:6.1%} of a copy"


def seconds(run: Callable[[], object]) -> float:
    """The median of several times, by the GPU's own clock, after one that builds what it needs."""
    run()
    torch.cuda.synchronize()
    times = []
    for _ in range(_TIMES):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        run()
        ended.record()
        ended.synchronize()
        times.append(began.elapsed_time(ended) / 1e3)
    return statistics.median(times)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=128, help="tokens of every sequence")
    parser.add_argument("--only", help="kernels whose name has this")
    parser.add_argument("--others", action="store_true", help="other constants too")
    options = parser.parse_args()
    require_device(parser, "cuda")
    return options


if __name__ == "__main__":
    main()
