"""A plan and a range of steps -> their batches in order, drawn ahead of time.

A batch is a function of its step's number, so who draws it changes nothing: a background thread, or
any number of processes behind it, give the same bits. This file knows no epochs and no examples.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor

from bertsmith.batch import PretrainBatch
from bertsmith.data.plan import Plan
from bertsmith.workers import in_order

MOST_STEPS_AHEAD = 64
SEQUENCES_AHEAD = 1 << 14  # bounds the memory of the batches that wait; two steps at least


def batches(plan: Plan, start: int, stop: int, workers: int = 0) -> Iterator[PretrainBatch]:
    """Yields the batches of steps start..stop-1, the same bits for any number of workers.

    A background thread draws ahead, or takes what two or more processes have drawn. An error in a
    worker is raised here, at the step it belongs to, ChildProcessError when a worker was killed;
    closing the iterator ends the workers.
    """
    if workers < 0 or start < 0:
        raise ValueError(f"workers and start must not be negative, found {workers} and {start}")
    drawn = in_order(plan.step, range(start, stop), min(workers, stop - start))
    return _ahead(drawn, min(MOST_STEPS_AHEAD, max(2, SEQUENCES_AHEAD // plan.rules.batch_size)))


def _ahead(
    drawn: Generator[PretrainBatch, None, None], most: int
) -> Generator[PretrainBatch, None, None]:
    """Yields the same batches; a thread of its own fetches up to `most` of them in advance."""
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="loader")
    try:
        waiting = deque(thread.submit(next, drawn, None) for _ in range(most))
        while (batch := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, drawn, None))
            yield batch
    finally:
        thread.shutdown(wait=True, cancel_futures=True)
        drawn.close()
