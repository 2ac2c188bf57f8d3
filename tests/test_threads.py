"""Calls side by side: in order, one thread each, and nothing left changed."""

import operator
import os
import pkgutil
import signal
import threading
import time

import pytest
import torch

from bertsmith.threads import one_a_thread, outlive_forks


@pytest.mark.usefixtures("two_threads")
def test_results_come_in_order_from_two_threads_with_one_each():
    meet = threading.Barrier(2, timeout=600)  # broken unless two calls are under way at once

    def call(number):
        meet.wait()
        return number, torch.get_num_threads()

    assert one_a_thread(call, range(6)) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_fewer_items_than_threads_share_the_threads():
    here = threading.get_ident()
    assert one_a_thread(lambda _: (threading.get_ident(), torch.get_num_threads()), [0]) == [
        (here, 2)
    ]


def test_with_one_thread_nothing_is_begun():
    here = threading.get_ident()
    assert set(one_a_thread(lambda _: threading.get_ident(), range(4))) == {here}


@pytest.mark.usefixtures("two_threads")
def test_an_error_comes_out_and_later_calls_are_left_out():
    begun, has_failed = [], threading.Event()

    def call(number):
        begun.append(number)
        if number == 1:
            has_failed.set()
            raise ValueError("one")
        has_failed.wait(timeout=60)
        time.sleep(0.01)
        return number

    with pytest.raises(ValueError, match="one"):
        one_a_thread(call, range(10_000))
    assert len(begun) < 9_000
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_thread_begun_meanwhile_has_as_many_threads_as_before(monkeypatch):
    found, here, whole = [], threading.current_thread(), torch.set_num_threads
    has_settled = threading.Event()

    def told(number):
        whole(number)
        if threading.current_thread() is here:
            has_settled.set()

    def call(_):
        assert has_settled.wait(timeout=600)
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return torch.get_num_threads()

    monkeypatch.setattr(torch, "set_num_threads", told)
    assert one_a_thread(call, range(4)) == [1] * 4
    assert found == [2] * 4


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("place", ["submit", "wait", "set_num_threads", "result"])
def test_an_exception_in_this_thread_leaves_nobody_waiting(monkeypatch, place):
    """As Ctrl-C raises it, wherever this thread stands; without the end it would hang."""
    here, begun = threading.current_thread(), []
    owner = {
        "submit": "concurrent.futures.ThreadPoolExecutor",
        "wait": "threading.Barrier",
        "set_num_threads": "torch",
        "result": "concurrent.futures.Future",
    }[place]
    whole = operator.attrgetter(place)(pkgutil.resolve_name(owner))

    def interrupted(*given):
        if threading.current_thread() is here:
            begun.append(place)
            if len(begun) == (2 if place == "submit" else 1):  # one of two threads waits then
                raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(f"{owner}.{place}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one_a_thread(lambda number: number, range(4))
    assert torch.get_num_threads() == 2
    assert one_a_thread(lambda number: number, range(4)) == [0, 1, 2, 3]


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("num_begun", [0, 1])
def test_where_no_thread_can_be_begun_this_one_does_it_all_once(monkeypatch, num_begun):
    start, left = threading.Thread.start, [None] * num_begun

    def refused(thread):
        if not left:
            raise RuntimeError("can't start new thread")
        left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refused)
    done = []
    one_a_thread(lambda number: done.append((number, torch.get_num_threads())), range(4))
    assert done == [(number, 1) for number in range(4)]  # OpenMP could not begin another either
    assert torch.get_num_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.usefixtures("two_threads")
def test_a_forked_process_computes_though_its_parent_had_more_threads():
    outlive_forks()
    numbers = torch.ones(1_000_000)
    assert numbers.sum() == 1_000_000  # in two threads, of which a child has one
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(600)  # a child that waits for ever is ended
            right = numbers.exp().sum() > 1_000_000 and torch.get_num_threads() == 1
            os._exit(0 if right else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.get_num_threads() == 2
