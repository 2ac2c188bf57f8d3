"""Calls side by side: in order, one thread each, and nothing left changed."""

import threading

import pytest
import torch

from bertsmith.threads import side_by_side


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

    assert list(side_by_side(call, range(6))) == [(number, 1) for number in range(6)]
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_fewer_items_than_threads_share_the_threads():
    here = threading.get_ident()
    assert list(side_by_side(lambda _: (threading.get_ident(), torch.get_num_threads()), [0])) == [
        (here, 2)
    ]


def test_with_one_thread_nothing_is_begun():
    here = threading.get_ident()
    assert set(side_by_side(lambda _: threading.get_ident(), range(4))) == {here}


@pytest.mark.usefixtures("two_threads")
def test_an_error_comes_out_and_later_calls_are_left_out():
    begun = []

    def call(number):
        begun.append(number)
        if number == 1:
            raise ValueError("one")
        return number

    results = side_by_side(call, range(1_000))
    assert next(results) == 0
    with pytest.raises(ValueError, match="one"):
        list(results)
    assert len(begun) < 1_000
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_a_new_thread_begins_with_as_many_threads_as_before():
    list(side_by_side(lambda number: number, range(4)))
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [2]
