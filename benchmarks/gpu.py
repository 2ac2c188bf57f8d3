"""Every benchmark of a CUDA GPU, one after the other, each within a limit: at most 25 minutes.

    python -m benchmarks.gpu                                    # all
    python -m benchmarks.gpu pretraining-base-128 inference     # some of them

BASE and LARGE in pre-training at lengths of 128 and 512, BASE in fine-tuning and in answers, beside
`transformers` at its best (bf16, scaled-dot-product attention, compiled, fused AdamW), with the
fraction of the GPU's matrix rate measured in the same run. Each is a program of its own, whose
`--help` says how it measures, and appends its row when it is done; one that meets its limit is
ended, and the others follow. Of the package's requirements rich, tyro, zstandard and google-crc32c
need not be there; without `transformers` ours is measured alone, and it says so. Without a GPU it
ends with status 2.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One program, its options, and how long it may take."""

    command: tuple[str, ...]
    """Module and options."""
    turn_seconds: int
    """For a system's longest turn, its first, which compiles."""
    seconds: int
    """For all of it."""

    systems: tuple[str, ...] = ()
    """Beside each other; none: as the program has them for a GPU."""

    def arguments(self, *, has_peer: bool) -> list[str]:
        """Behind `python -m`; of ours alone where the peer is missing."""
        systems = self.systems if has_peer else ("bertsmith",)
        named = [word for system in systems for word in ("--system", system)]
        return [*self.command, "--limit", str(self.turn_seconds), *named]


def _pretraining(size: str, length: int, turn_seconds: int, seconds: int) -> Measurement:
    options = ("--size", size, "--length", str(length), "--rounds", "5", "--device", "cuda")
    return Measurement(
        command=("benchmarks.pretraining", *options), turn_seconds=turn_seconds, seconds=seconds
    )


MEASUREMENTS = {
    "pretraining-base-128": _pretraining("base", 128, 100, 180),
    "pretraining-base-512": _pretraining("base", 512, 100, 180),
    "pretraining-large-128": _pretraining("large", 128, 150, 270),
    "pretraining-large-512": _pretraining("large", 512, 150, 270),
    "finetuning": Measurement(
        command=(
            "benchmarks.finetuning.speed", "--size", "base", "--task", "drawn",
            "--rounds", "5", "--steps", "20", "--device", "cuda",
        ),
        turn_seconds=150,
        seconds=300,
    ),
    "inference": Measurement(
        command=(
            "benchmarks.inference", "--size", "base", "--rounds", "3", "--device", "cuda",
            "--setting", "embed, mixed", "--setting", "classify, mixed",
            "--setting", "embed, 128 tokens", "--setting", "one text, 64 tokens",
        ),
        systems=("bertsmith", "transformers best", "transformers compiled"),
        turn_seconds=100,
        seconds=300,
    ),
}  # fmt: skip


def main() -> int:
    """Runs all, or those named; status 2 without a GPU, 1 when one failed or met its limit."""
    names = _options().names or list(MEASUREMENTS)
    if not torch.cuda.is_available():
        print("benchmarks.gpu: torch sees no CUDA GPU here; nothing was measured", file=sys.stderr)
        return 2
    has_peer = importlib.util.find_spec("transformers") is not None
    if not has_peer:
        print("transformers is not installed: ours is measured alone", flush=True)
    failed = []
    for name in names:
        measurement = MEASUREMENTS[name]
        arguments = measurement.arguments(has_peer=has_peer)
        print(f"\n== {name}: python -m {' '.join(arguments)}", flush=True)
        if not ends_well([sys.executable, "-m", *arguments], measurement.seconds):
            failed.append(name)
    if failed:
        print(f"failed, or met its limit: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def ends_well(command: Sequence[str], seconds: float) -> bool:
    """Runs a command, ending it and what it started after so long; whether it ended well."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        return process.wait(seconds) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = ", ".join(MEASUREMENTS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {known}; or all")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; expected some of {known}")
    return options


if __name__ == "__main__":
    sys.exit(main())
