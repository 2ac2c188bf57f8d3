"""A plan and a range of steps -> their batches in order, drawn ahead of time.

A batch is a function of its step's number, so who draws it changes nothing: a background thread (no
workers) or any number of processes give the same bits. This file knows no epochs and no examples.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from bertsmith.batch import PretrainBatch
from bertsmith.data.plan import Plan

MOST_STEPS_AHEAD = 64
SEQUENCES_AHEAD = 1 << 14  # bounds the memory of the batches that wait; two steps at least


def batches(plan: Plan, start: int, stop: int, workers: int = 0) -> Iterator[PretrainBatch]:
    """Yields the batches of steps start..stop-1, the same bits for any number of workers.

    With 0 workers one background thread draws ahead, else so many processes do. An error in a
    worker is raised here, at the step it belongs to, ChildProcessError when a worker was killed;
    closing the iterator ends the workers.
    """
    if workers < 0 or start < 0:
        raise ValueError(f"workers and start must not be negative, found {workers} and {start}")
    if start >= stop:
        return
    steps_ahead = min(MOST_STEPS_AHEAD, max(2, SEQUENCES_AHEAD // plan.rules.batch_size))
    executor, draw = _workforce(plan, min(workers, stop - start))
    try:
        waiting: deque[Future[PretrainBatch]] = deque()
        following = start
        for number in range(start, stop):
            while following < min(number + steps_ahead, stop):
                waiting.append(executor.submit(draw, following))
                following += 1
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise ChildProcessError(
            f"a loader worker died while drawing a batch, perhaps for want of memory: try fewer "
            f"than {workers} workers"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _workforce(plan: Plan, workers: int) -> tuple[Executor, Callable[[int], PretrainBatch]]:
    if workers == 0:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader"), plan.step
    executor = ProcessPoolExecutor(
        max_workers=workers,
        # Spawned, not forked: a fork would copy the locks of PyTorch's threads in whatever state.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin_work,
        initargs=(plan,),
    )
    return executor, _draw_in_worker


_plan_of_this_worker: list[Plan] = []
"""Set once in each worker process, so that the plan travels once and not with every step."""


def _begin_work(plan: Plan) -> None:
    _plan_of_this_worker[:] = [plan]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process when the parent dies without a word: a killed run leaves no orphans."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _draw_in_worker(number: int) -> PretrainBatch:
    return _plan_of_this_worker[0].step(number)
