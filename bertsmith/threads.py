"""Calls that compute with torch -> their results in order, as many at a time as there are threads.

Threads that share an operator meet after every one of them; each with a call of its own, they never
wait for one another. However it ends, by a signal's exception or without a thread to be had, nobody
is left waiting. It does not know what is computed.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Result = TypeVar("Result")


def one_a_thread(call: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
    """`call` of every item, each in one of torch's threads; with fewer items, in all of them.

    What a `with` block has set around it (inference mode, `unfused`) holds in this thread alone:
    `call` sets it itself. The first error of a call is raised; calls not begun are left out. Where
    no thread can be begun (a container's limit, after the main thread's end) this one does it all.
    """
    num_threads = torch.get_num_threads()
    if num_threads == 1 or len(items) < num_threads:
        return [call(item) for item in items]
    all_here = threading.Barrier(num_threads + 1)

    def begin() -> None:
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread's first question or operator takes the process's number
        with contextlib.suppress(threading.BrokenBarrierError):
            all_here.wait()

    pool = ThreadPoolExecutor(num_threads, initializer=begin)
    try:
        if futures := _begun(pool, call, items):
            all_here.wait()
            # Theirs is one thread; this one's, and that of threads begun from now on, is as before.
            torch.set_num_threads(num_threads)
            futures.reverse()
            return [futures.pop().result() for _ in items]  # no error is kept by who raises it
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        all_here.abort()  # whatever came in between, nobody is waited for
        pool.shutdown()
        torch.set_num_threads(num_threads)
    return _in_this_thread(call, items)


def _in_this_thread(call: Callable[[Given], Result], items: Sequence[Given]) -> list[Result]:
    """Without others of an operator's own either: OpenMP ends the process that cannot begin one."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [call(item) for item in items]
    finally:
        torch.set_num_threads(num_threads)


@functools.cache
def outlive_forks() -> None:
    """From now on a forked process computes in one thread: its parent's others are not there.

    Without it the first operator that is shared waits for them for ever, torch's own too.
    """
    if sys.platform != "win32":
        os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


def _begun(
    pool: ThreadPoolExecutor, call: Callable[[Given], Result], items: Sequence[Given]
) -> list[Future[Result]] | None:
    """The calls under way; None where not every thread can be begun."""
    try:
        return [pool.submit(call, item) for item in items]
    except RuntimeError:
        return None
