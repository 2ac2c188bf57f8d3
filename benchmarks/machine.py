"""What a benchmark row says of the machine, and the matrix rate measured in the same run."""

from __future__ import annotations

import argparse
import getpass
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import torch

from benchmarks.process_memory import own_peak_bytes
from bertsmith.model import float16
from bertsmith.train.config import Precision
from bertsmith.train.device import choose_device, choose_precision, dtype_of, rounds_products

ROWS_VARIABLE = "BENCHMARK_ROWS"
RESULTS = Path(os.environ.get(ROWS_VARIABLE) or Path(__file__).parent / "results")
"""Where rows are added: of the project, or where the environment says."""
_BUT_ROWS = ":(top,exclude)benchmarks/results"
CPU = torch.device("cpu")
OLDER_CPUS = {
    "AVX2": {
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    }
}
"""What the libraries read that are to leave newer instructions alone, by the newest left."""
_PRODUCTS = {"cpu": (4096, 768, 3072), "cuda": (8192, 8192, 8192)}
"""Rows, width and outputs of the product that stands for the matrix rate: what fills a CPU is too
little for a GPU."""


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


def matrix_rate(
    precision: Precision | None = None, rounds: int = 7, device: torch.device = CPU
) -> float:
    """FLOP/s of a forward linear layer, the ceiling of speed figures; None: of the fastest.

    4096 x 768 -> 3072 on a CPU, 8192 x 8192 -> 8192 on a GPU. Its output lies in memory that was
    written before: fresh pages cost up to a tenth of the time. On a CPU products of float16 are our
    own: torch has none that are faster than those of float32.
    """
    precision = precision or choose_precision("auto", device)
    dtype = dtype_of(precision, device)
    height, inner, width = _PRODUCTS[device.type]
    rows = torch.randn(height, inner, dtype=dtype, device=device)
    weight = torch.randn(width, inner, dtype=dtype, device=device)
    output = torch.empty(height, width, dtype=dtype, device=device)

    def multiply() -> None:
        if rounds_products(precision, device):
            float16.product(rows, weight, output=output)
        else:
            torch.mm(rows, weight.t(), out=output)
        wait_for(device)

    with torch.no_grad():
        seconds = median_seconds(multiply, rounds)
    return 2 * height * inner * width / seconds


def wait_for(device: torch.device) -> None:
    """Returns when the device has done all that it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def peak_bytes(device: torch.device) -> int:
    """The most that this process ever held: of the GPU's memory, or resident."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return own_peak_bytes()


def imitate(older: str | None) -> None:
    """Keeps this process and those that it starts to an older CPU's instructions; None: to none.

    Raises ValueError where torch has settled on its instructions already.
    """
    if older is None:
        return
    os.environ.update(OLDER_CPUS[older])
    # Apart from what was built for newer instructions: torch 2.13 takes its source from there and
    # builds it for these, and the kernel then computes half of its numbers.
    kernels = os.environ.get("TORCHINDUCTOR_CACHE_DIR", f"torchinductor_{getpass.getuser()}")
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(tempfile.gettempdir(), f"{kernels}_{older}"))
    found = torch.backends.cpu.get_cpu_capability()
    if found != older:
        raise ValueError(f"torch computes with {found}, and should with {older}: set it earlier")


def device_facts(device: torch.device, older: str | None = None) -> dict[str, str | None]:
    """What a row says of where it was measured, beside the processor."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return {"device": device.type, "gpu": name, "cuda": torch.version.cuda}
    return {"device": device.type, "instructions": older}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Those of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


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


def commit_here() -> str:
    """Of the code that is measured; rows that a run has just added make it no other code.

    Empty where there is no git, or no repository.
    """
    if shutil.which("git") is None:
        return ""
    commit = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", _BUT_ROWS)
    return f"{commit}-dirty" if changed else commit


def _git(*words: str) -> str:
    ran = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def append_row(benchmark: str, row: Mapping[str, object]) -> None:
    """Adds one run to `benchmarks/results/{benchmark}.jsonl`."""
    commit = commit_here()
    head = {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "processor": processor(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{benchmark}.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({**head, **row}) + "\n")


def require_device(parser: argparse.ArgumentParser, name: str) -> None:
    """Ends the program with status 2 and a line where the device is not there."""
    try:
        choose_device(name)
    except ValueError as error:
        parser.error(str(error))
