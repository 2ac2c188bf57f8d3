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
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from benchmarks.inference.padded import Place, Question, Rows
from benchmarks.inference.systems import SYSTEMS
from benchmarks.machine import peak_bytes
from bertsmith.cli import ENVIRONMENT

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
    process: BaseProcess
    pipe: Connection
    load_seconds: float
    """From its first import to its readiness."""

    def ask(self, order: Order) -> Answered:
        """Has an order answered. Raises RuntimeError when the system's process has ended."""
        time.sleep(_PAUSE_SECONDS)
        with _naming(self.name):
            self.pipe.send(order)
            answered: Answered = self.pipe.recv()
        return answered

    def end(self) -> None:
        """Closes the pipe, with which the process ends, and waits for that."""
        self.pipe.close()
        self.process.join()


def begin(name: str, place: Place) -> Running:
    """Starts a system there, and waits until it is ready."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, name, place), daemon=True)
    kernels = place.folder / f"kernels of {name}, {place.threads}".replace(" ", "_")
    with _environment(_variables(name, place.threads, kernels)):
        process.start()
    theirs.close()
    with _naming(name):
        load_seconds: float = ours.recv()
    return Running(name=name, process=process, pipe=ours, load_seconds=load_seconds)


def in_a_process(work: Callable[[Path], None], folder: Path) -> None:
    """Calls `work` with the folder where it leaves no module and no memory behind."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=(folder,))
    with _environment(_QUIET):
        process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__name__} failed: its error stands above")


def _serve(pipe: Connection, name: str, place: Place) -> None:
    threads = place.threads
    if sys.platform.startswith("linux"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    torch.set_num_threads(threads)
    began = time.perf_counter()
    system = SYSTEMS[name].make(place)
    pipe.send(time.perf_counter() - began)
    while True:
        try:
            order: Order = pipe.recv()
        except EOFError:
            return
        calls = [[text] for text in order.texts] if order.one_by_one else [order.texts]
        seconds = []
        for texts in calls:
            began = time.perf_counter()
            rows = system(order.question, texts)
            seconds.append(time.perf_counter() - began)
        pipe.send(Answered(seconds=tuple(seconds), rows=rows, peak_bytes=peak_bytes(place.device)))


def _variables(name: str, threads: int, kernels: Path) -> dict[str, str]:
    """For ours what `bertsmith` sets too; torch reads it when it is imported."""
    return {
        "OMP_NUM_THREADS": str(threads),
        "RAYON_NUM_THREADS": str(threads),
        "TOKENIZERS_PARALLELISM": "true" if threads > 1 else "false",
        "TORCHINDUCTOR_CACHE_DIR": str(kernels),
        **_QUIET,
        **(ENVIRONMENT if name.startswith("bertsmith") else {}),
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


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, OSError) as error:
        raise RuntimeError(
            f"the process of {name!r} ended: if no error of its own stands above, the memory did "
            "not suffice for all; name fewer with --system"
        ) from error
