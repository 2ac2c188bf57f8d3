"""A system in a process of its own: asked for answers, it says how long they took.

Its process has as many cores as threads are asked for, its memory as it comes to a user, and a
compiler that finds nothing of earlier runs. It does not know what is measured.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.inference.padded import Place, Question, Rows
from benchmarks.inference.systems import SYSTEMS
from benchmarks.machine import peak_bytes
from benchmarks.processes import Worker
from bertsmith.environment import ENVIRONMENT, SPINNING

_PAUSE_SECONDS = 0.2  # until the threads of the system before have stopped spinning
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONWARNINGS": "ignore",
    "TQDM_DISABLE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


@dataclass(frozen=True, kw_only=True)
class Order:
    """Asks a system for its answers."""

    question: Question
    texts: list[str]
    one_by_one: bool
    """Each text is a call of its own, and timed alone."""
    pause: float = 0.0
    """Seconds before each call."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What a system says of them."""

    seconds: tuple[float, ...]
    """Of every call."""
    rows: Rows
    """Of all texts, or of the last one that was asked alone."""
    peak_bytes: int
    """The most that its process held: of the GPU's memory, or resident."""


@dataclass(frozen=True, kw_only=True)
class Running:
    """A system that waits for orders."""

    name: str
    worker: Worker[Order | None, Any]
    load_seconds: float
    """From its first import to its readiness."""

    def ask(self, order: Order, seconds: float | None = None) -> Answered:
        """Has an order answered.

        Raises RuntimeError when the system's process has ended, or did not answer in time.
        """
        time.sleep(_PAUSE_SECONDS)
        answered: Answered = self.worker.ask(order, seconds)
        return answered


def begin(name: str, place: Place) -> Running:
    """Starts a system there, and waits until it is ready."""
    kernels = place.folder / f"kernels of {name}, {place.threads}".replace(" ", "_")
    with _environment(_variables(name, place.threads, kernels)):
        worker: Worker[Order | None, Any] = Worker.begin(name, _system, name, place)
    return Running(name=name, worker=worker, load_seconds=worker.ask(None))


def in_a_process(work: Callable[[Path], None], folder: Path) -> None:
    """Calls `work` with the folder where it leaves no module and no memory behind."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=(folder,))
    with _environment(_QUIET):
        process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} failed: its error stands above")


def _system(name: str, place: Place) -> Callable[[Order | None], Answered | float]:
    """What answers in the process; without an order how many seconds it took to begin."""
    threads = place.threads
    if sys.platform.startswith("linux"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    torch.set_num_threads(threads)
    began = time.perf_counter()
    system = SYSTEMS[name].make(place)
    load_seconds = time.perf_counter() - began

    def answer(order: Order | None) -> Answered | float:
        if order is None:
            return load_seconds
        seconds = []
        for texts in [[text] for text in order.texts] if order.one_by_one else [order.texts]:
            time.sleep(order.pause)
            began = time.perf_counter()
            rows = system(order.question, texts)
            seconds.append(time.perf_counter() - began)
        return Answered(seconds=tuple(seconds), rows=rows, peak_bytes=peak_bytes(place.device))

    return answer


def _variables(name: str, threads: int, kernels: Path) -> dict[str, str]:
    """For ours what `bertsmith` sets too; torch reads it when it is imported."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "TORCHINDUCTOR_CACHE_DIR": str(kernels),
        **_QUIET,
        **({**ENVIRONMENT, **SPINNING} if name.startswith("bertsmith") else {}),
    }


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
