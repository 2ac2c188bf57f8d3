"""Calls that compute with torch -> their results in order, as many at a time as there are threads.

Threads that share an operator meet after every one of them; each with a call of its own, they never
wait for one another. It does not know what is computed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Result = TypeVar("Result")


def one_a_thread(call: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
    """`call` of every item, each in one of torch's threads; with fewer items, in all of them.

    What a `with` block has set around it (inference mode, `unfused`) holds in this thread alone:
    `call` sets it itself. The first error of a call is raised; calls not begun are left out.
    """
    num_threads = torch.get_num_threads()
    if num_threads == 1 or len(items) < num_threads:
        return [call(item) for item in items]
    all_here = threading.Barrier(num_threads + 1)

    def begin() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread's first question or operator takes the process's number
        all_here.wait()

    pool = ThreadPoolExecutor(num_threads, initializer=begin)
    try:
        results = pool.map(call, items)
        all_here.wait()
        # Theirs is one thread; this one's, and that of threads begun from now on, is as before.
        torch.set_num_threads(num_threads)
        return list(results)
    finally:
        pool.shutdown(cancel_futures=True)
