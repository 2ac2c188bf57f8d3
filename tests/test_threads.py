"""Calls side by side: in order, one thread each, and nothing left changed."""

import threading
import time

import pytest
import torch

from bertsmith.threads import one_a_thread


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_results_come_in_order_from_two_threads_with_one_each():
    meet = threading.Barrier(2, timeout=60)  # broken unless two calls are under way at once

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
        one_a_thread(call, range(1_000))
    assert len(begun) < 500
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_thread_begun_meanwhile_has_as_many_threads_as_before():
    found = []

    def call(number):
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return torch.get_num_threads()

    time_to_settle = 0.2
    assert (
        one_a_thread(lambda number: (time.sleep(time_to_settle), call(number))[1], range(4))
        == [1] * 4
    )
    assert found == [2] * 4
