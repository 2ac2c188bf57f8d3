"""Items -> results in the items' order, worked out by several processes at once.

Each worker has a pipe of its own. Whoever is free gets the next item; results wait until their turn
comes, and no more than a few items a worker are under way, so memory is bounded. A worker ends when
its pipe does: it does not outlive a killed parent. It knows nothing of what the work is.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import queue
import signal
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_ITEMS_AT_A_WORKER = 2
_ITEMS_UNDER_WAY = 4  # a worker: at it, or done and waiting for their turn
_BYTES_WORTH_A_WORKER = 1 << 20


def num_cores() -> int:
    """Cores that this process may run on; those of the machine where the system does not say."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return allowed or 1


def choose_workers(asked: int, input_bytes: int) -> int:
    """`asked`; where it is 0, one a core, but none that has less than a megabyte to do."""
    return asked or max(1, min(num_cores(), input_bytes // _BYTES_WORTH_A_WORKER))


def in_order(
    work: Callable[[Item], Result], items: Iterable[Item], num_workers: int
) -> Generator[Result, None, None]:
    """Yields `work(item)` for each item, in order; at most one worker means in this process.

    `work`, items and results must pickle. An error of `work` is raised here, when its turn comes.
    Raises ChildProcessError when a worker is killed. Closing the iterator ends the workers.
    """
    if num_workers <= 1:
        yield from map(work, items)
        return
    team = _Team(work, num_workers)
    try:
        yield from team.results(items)
    finally:
        team.end()


class _Team(Generic[Item, Result]):
    def __init__(self, work: Callable[[Item], Result], num_workers: int) -> None:
        # Spawned, not forked: a forked child of a process with threads may hang on their locks.
        context = multiprocessing.get_context("spawn")
        self._processes: dict[Connection, BaseProcess] = {}
        self._given: dict[Connection, int] = {}
        for _ in range(num_workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work), daemon=True)
            process.start()
            theirs.close()
            self._processes[ours], self._given[ours] = process, 0

    def results(self, items: Iterable[Item]) -> Iterator[Result]:
        numbered = enumerate(items)
        done: dict[int, Result | Exception] = {}
        given = 0
        for turn in itertools.count():
            while turn not in done:
                room = turn + _ITEMS_UNDER_WAY * len(self._processes) - given
                given += self._give(numbered, room)
                if given == turn:
                    return
                done.update(self._receive())
            result = done.pop(turn)
            if isinstance(result, Exception):
                raise result
            yield result

    def end(self) -> None:
        for pipe, process in self._processes.items():
            pipe.close()
            process.terminate()
        for process in self._processes.values():
            process.join()

    def _give(self, numbered: Iterator[tuple[int, Item]], room: int) -> int:
        """Hands items to the least busy workers while there is room; returns how many."""
        given = 0
        while given < room:
            pipe = min(self._given, key=self._given.__getitem__)
            numbered_item = next(numbered, None) if self._given[pipe] < _ITEMS_AT_A_WORKER else None
            if numbered_item is None:
                break
            try:
                pipe.send(numbered_item)
            except OSError as error:
                raise self._loss(pipe) from error
            self._given[pipe] += 1
            given += 1
        return given

    def _receive(self) -> dict[int, Result | Exception]:
        """Waits for at least one result."""
        received = {}
        for pipe in wait(list(self._processes)):
            assert isinstance(pipe, Connection)
            try:
                number, result = pipe.recv()
            except (EOFError, OSError) as error:
                raise self._loss(pipe) from error
            self._given[pipe] -= 1
            received[number] = result
        return received

    def _loss(self, pipe: Connection) -> ChildProcessError:
        process = self._processes[pipe]
        process.join(timeout=5)
        return ChildProcessError(
            f"a worker process ended with exit code {process.exitcode}, most often because memory "
            f"ran out; use fewer workers and start again"
        )


def _serve(pipe: Connection, work: Callable[[Item], Result]) -> None:
    """A worker's life: items in, results out, until the parent ends it or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["RAYON_NUM_THREADS"] = "1"
    waiting: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
    # A thread of its own empties the pipe: else both sides could wait, each for the other to read.
    threading.Thread(target=_take_in, args=(pipe, waiting), daemon=True).start()
    while True:
        number, item = waiting.get()
        result: Result | Exception
        try:
            result = work(item)
        except Exception as error:
            error.add_note(traceback.format_exc())
            result = error
        pipe.send((number, result))


def _take_in(pipe: Connection, waiting: queue.SimpleQueue[tuple[int, Item]]) -> None:
    try:
        while True:
            waiting.put(pipe.recv())
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone, and with it everyone who could use a result
