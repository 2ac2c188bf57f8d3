"""Calls that compute with torch -> their results in order, as many at a time as there are threads.

Threads that share an operator meet after every one of them; each with a call of its own, they never
wait for one another. It does not know what is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Result = TypeVar("Result")


def side_by_side(call: Callable[[Given], Result], items: Sequence[Given]) -> Iterator[Result]:
    """`call` of every item, each in one of torch's threads; with fewer items, in all of them.

    What a `with` block has set around it (inference mode, `unfused`) holds in this thread alone:
    `call` sets it itself. An error of a call comes out at its place; calls not begun are left out.
    """
    num_threads = torch.get_num_threads()
    if num_threads == 1 or len(items) < num_threads:
        yield from map(call, items)
        return
    pool = ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        yield from pool.map(call, items)
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(num_threads)  # the pool's threads set what new threads begin with
