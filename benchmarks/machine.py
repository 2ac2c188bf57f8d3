"""What a benchmark row says of the machine, and the matrix rate measured in the same run."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "results"


def median_seconds(work: Callable[[], object], rounds: int = 7) -> float:
    """Median wall time of `work` after two calls that warm it up."""
    for _ in range(2):
        work()
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return sorted(seconds)[rounds // 2]


def matrix_rate(dtype: torch.dtype, rounds: int = 7) -> float:
    """FLOP/s of a forward linear layer of 4096 x 768 -> 3072, the ceiling of speed figures.

    Its output lies in memory that was written before: fresh pages cost up to a tenth of the time.
    """
    rows, weight = torch.randn(4096, 768, dtype=dtype), torch.randn(3072, 768, dtype=dtype)
    output = torch.empty(4096, 3072, dtype=dtype)
    with torch.no_grad():
        seconds = median_seconds(lambda: torch.mm(rows, weight.t(), out=output), rounds)
    return 2 * 4096 * 768 * 3072 / seconds


def processor() -> str:
    """The processor's name and its matrix instructions."""
    name, flags = platform.processor() or platform.machine(), set()
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                name = value.strip()
            if key.strip() == "flags":
                flags = set(value.split())
    known = [flag for flag in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if flag in flags]
    return " ".join([name, *known])


def append_row(benchmark: str, row: Mapping[str, object]) -> None:
    """Adds one run to `benchmarks/results/{benchmark}.jsonl`."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    ).stdout.strip()
    head = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{benchmark}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**head, **row}) + "\n")
