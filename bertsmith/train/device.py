"""The machine -> a device, a precision and a place among the processes of a run.

Every choice is made here once, from what the hardware and the environment say, and can be overruled
by name. It knows no model beyond torch's modules, and no random seed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, get_args, runtime_checkable

import torch
from torch import nn

from bertsmith.native import multiplies_float16
from bertsmith.train.config import Precision, PrecisionChoice
from bertsmith.workers import num_cores

_DTYPES: dict[Precision, torch.dtype] = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "fp32": torch.float32,
}


@runtime_checkable
class Multiplier(Protocol):
    """A module whose products may be made of float16, on a CPU."""

    in_float16: bool
    """Whether they are, its numbers being float32."""


@dataclass(frozen=True, kw_only=True)
class Processes:
    """This process's place among the processes of one run, as torchrun numbers them."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    """The number on this machine: the GPU it takes."""

    @property
    def is_first(self) -> bool:
        """True for the one process that prints and saves."""
        return self.rank == 0


ALONE = Processes()


def choose_device(name: str = "auto", processes: Processes = ALONE) -> torch.device:
    """The named device, or for `auto` the first of: this process's GPU, Apple's GPU, the CPU.

    Raises ValueError for a name torch does not know or a device that is not there.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
        name = "mps" if name == "cpu" and torch.backends.mps.is_available() else name
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"unknown device {name!r}: expected auto, cpu, cuda or mps") from error
    if device.type == "cuda":
        number = processes.local_rank if device.index is None else device.index
        device = torch.device("cuda", number)
        count = torch.cuda.device_count()
        if device.index >= count:
            raise ValueError(f"device {device} is not here: torch sees {count} GPUs")
        torch.cuda.set_device(device)
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise ValueError("device mps is not here: torch sees no Apple GPU; use cpu")
    return device


def choose_precision(choice: PrecisionChoice, device: torch.device) -> Precision:
    """The precision of weights and activations; masters are float32 whatever it is.

    `auto` is bf16 where the hardware multiplies it faster: on GPUs from Ampere on, on CPUs with AMX
    and most with AVX512_BF16. It is fp16 on older GPUs, with loss scaling, and on CPUs with
    AVX512_FP16: there weights and activations stay float32, and are rounded where they are
    multiplied. Elsewhere it is fp32: on a CPU without instructions for it bf16 would be slower.
    Raises ValueError for fp16 where there is none, and for what is no precision.
    """
    if choice not in get_args(PrecisionChoice):
        expected = ", ".join(get_args(PrecisionChoice))
        raise ValueError(f"there is no precision {choice!r}: expected one of {expected}")
    if not has_precision(choice, device):
        raise ValueError(
            f"precision fp16 needs an NVIDIA or AMD GPU, or a CPU with AVX512_FP16 and g++ 12 or "
            f"newer, or a wheel with what it built (and not BERTSMITH_FUSION=0); found device "
            f"{device}: take precision auto"
        )
    if choice != "auto":
        return choice
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
    if device.type == "cpu" and cpu_multiplies_bf16():
        return "bf16"
    may = _may_use("FP16", "AMX", "AVX10") and has_precision("fp16", device)
    return "fp16" if may else "fp32"


def has_precision(choice: PrecisionChoice, device: torch.device) -> bool:
    """Whether the device has it: fp16 is one of GPUs, and of CPUs that multiply it."""
    if choice != "fp16" or device.type == "cuda":
        return True
    return device.type == "cpu" and multiplies_float16()


def recorded_precision(choice: PrecisionChoice, device: torch.device) -> Precision:
    """Of a run that goes on, or is scored again: as it was, or where that is not there, `auto`.

    fp16 alone may be missing, and every checkpoint has its weights in float32.
    """
    return choose_precision(choice if has_precision(choice, device) else "auto", device)


def rounds_products(precision: Precision, device: torch.device) -> bool:
    """Whether numbers are float32 and their products alone are made of float16: fp16 on a CPU."""
    return precision == "fp16" and device.type == "cpu"


def dtype_of(precision: Precision, device: torch.device) -> torch.dtype:
    """Of weights and activations."""
    return torch.float32 if rounds_products(precision, device) else _DTYPES[precision]


def _may_use(*instructions: str) -> bool:
    """Whether `ONEDNN_MAX_CPU_ISA` leaves any of them, being free of a cap or naming it.

    It caps what oneDNN uses, so AVX2 there imitates an older machine.
    """
    cap = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "")).upper()
    return cap in ("", "ALL", "DEFAULT") or any(name in cap for name in instructions)


def cpu_multiplies_bf16() -> bool:
    """True where products of bf16 are the faster ones: by AMX, or by AVX512_BF16 of most CPUs.

    Intel's cores that were made with AMX take twice as long over AVX512_BF16 as over float32
    (docs/log.md), which matters where a virtual machine hides their AMX. They are known by
    AVX512_FP16, which is the faster way there (`choose_precision`).
    """
    has = torch.cpu.get_capabilities()
    if has.get("amx_bf16") and _may_use("AMX"):
        return True
    may = _may_use("BF16", "FP16", "AMX", "AVX10")
    is_slow = has.get("avx512_fp16") and "Intel" in str(has.get("cpu_name", ""))
    return bool(has.get("avx512_bf16")) and may and not is_slow


def cast_(module: nn.Module, precision: Precision) -> None:
    """Casts parameters in place: matrices and biases to `precision`, norms to float32.

    On a CPU fp16 leaves them float32, and says how they are multiplied.

    A norm is a module typed or named so (`LayerNorm`, `attention.norm`); it keeps float32 because
    its sums need the digits and its weights cost nothing. Tied parameters stay tied.
    """
    kept = {
        id(parameter)
        for name, part in module.named_modules()
        if "norm" in type(part).__name__.lower() or "norm" in name.rpartition(".")[2].lower()
        for parameter in part.parameters()
    }
    for parameter in module.parameters():
        dtype = dtype_of(precision, parameter.device)
        parameter.data = parameter.data.to(torch.float32 if id(parameter) in kept else dtype)
    devices = {parameter.device for parameter in module.parameters()}
    choose_float16(module, all(rounds_products(precision, device) for device in devices))


def told_precision(precision: Precision, device: torch.device) -> str:
    """What is computed in, for people."""
    if precision == "fp32":
        return precision
    if rounds_products(precision, device):
        return "fp32, products in fp16"
    return f"{precision} with fp32 masters"


def choose_float16(model: nn.Module, condition: bool) -> None:
    """Tells every module that can whether to make its products of float16."""
    for module in model.modules():
        if isinstance(module, Multiplier):
            module.in_float16 = condition


def set_threads(count: int | None) -> int:
    """Makes torch use `count` CPU threads (None: as many as it chose); returns the number in use.

    More threads than cores this process may run on only wait for each other, so they are refused.
    """
    if count is not None:
        cores = num_cores()
        if not 1 <= count <= cores:
            raise ValueError(f"threads must be 1 to {cores}, the cores at hand; found {count}")
        torch.set_num_threads(count)
    return torch.get_num_threads()


@contextlib.contextmanager
def joined_processes(device_name: str = "auto") -> Iterator[Processes]:
    """Joins the processes that torchrun started, for the block; one process alone joins nobody.

    Uses NCCL where the run is on GPUs and gloo elsewhere. Raises ValueError for one numbered GPU.
    """
    processes = processes_of_environment()
    if processes.world_size == 1:
        yield processes
        return
    if ":" in device_name:
        raise ValueError(
            f"device {device_name} is one GPU, and the run has {processes.world_size} processes: "
            f"take cuda, of which each process takes its own"
        )
    device = choose_device(device_name, processes)
    torch.distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield processes
    finally:
        torch.distributed.destroy_process_group()


def processes_of_environment() -> Processes:
    """Reads RANK, WORLD_SIZE and LOCAL_RANK, as torchrun sets them; without them, one process."""
    values = {name: os.environ.get(name) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK")}
    if values["WORLD_SIZE"] is None:
        return ALONE
    missing = [name for name, value in values.items() if value is None]
    if missing:
        raise ValueError(
            f"WORLD_SIZE is set but {' and '.join(missing)} is not: start the run with torchrun, "
            f"or unset WORLD_SIZE"
        )
    rank, world_size, local_rank = (int(value or 0) for value in values.values())
    return Processes(rank=rank, world_size=world_size, local_rank=local_rank)
